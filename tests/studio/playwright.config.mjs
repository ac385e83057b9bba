import { defineConfig } from "@playwright/test";

const widths = { phone: 390, tablet: 800, desktop: 1280 };
const schemes = ["light", "dark"];

export default defineConfig({
  testDir: ".",
  outputDir: "../../target/studio-tests",
  forbidOnly: true,
  retries: 0,
  workers: 1,
  timeout: 60_000,
  reporter: "line",
  use: {
    launchOptions: {
      executablePath: process.env.TOOLCRIB_CHROMIUM ?? "/usr/bin/chromium",
      // Chromium refuses its sandbox to root, which CI is.
      args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
    },
  },
  projects: Object.entries(widths).flatMap(([name, width]) =>
    schemes.map((colorScheme) => ({
      name: `${name}-${colorScheme}`,
      use: { viewport: { width, height: 900 }, colorScheme },
    })),
  ),
});
