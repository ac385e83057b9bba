import AxeBuilder from "@axe-core/playwright";
import { expect } from "./servers.mjs";

/** What has to hold of any page. */
export async function looksRight(page, name, info) {
  await page.screenshot({ path: info.outputPath(`${name}.png`), fullPage: true });
  const found = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]).analyze();
  expect(found.violations.map((violation) => `${violation.id}: ${violation.nodes[0].html}`)).toEqual([]);
  const wide = await page.evaluate(() => {
    if (document.documentElement.scrollWidth <= innerWidth) return [];
    const clipped = (element) => element.parentElement?.closest(".scroll, pre, textarea");
    const past = [...document.body.querySelectorAll("*")].filter((element) => element.getBoundingClientRect().right > innerWidth + 1);
    return past.filter((element) => !clipped(element)).map((element) => element.outerHTML.slice(0, 200));
  });
  expect(wide, "nothing is wider than the screen").toEqual([]);
}
