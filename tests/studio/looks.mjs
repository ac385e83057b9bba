import AxeBuilder from "@axe-core/playwright";
import { expect } from "./servers.mjs";

/** What has to hold of any page. */
export async function looksRight(page, name, info) {
  await page.screenshot({ path: info.outputPath(`${name}.png`), fullPage: true });
  const found = await new AxeBuilder({ page }).withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]).analyze();
  expect(found.violations.map((violation) => `${violation.id}: ${violation.nodes[0].html}`)).toEqual([]);
  const [inner, whole] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth]);
  expect(whole, "nothing is wider than the screen").toBeLessThanOrEqual(inner);
}
