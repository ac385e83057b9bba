// Keys: "/" goes to the search, "g" and a letter to a page of the menu. Pages that show what may change are
// read anew when somebody looks at them again.
"use strict";

let gone = false;

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    const search = document.querySelector("input[type=search]");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  } else if (gone) {
    gone = false;
    const link = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
    if (link) link.click();
  } else {
    gone = event.key === "g";
  }
});

// A part that is marked is fetched again every few seconds, as long as the page is looked at and nobody types in it.
for (const part of document.querySelectorAll("[data-live]")) {
  const seconds = Number(part.dataset.live);
  setInterval(async () => {
    const busy = part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select");
    if (document.hidden || busy) return;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (!answer.ok || answer.redirected) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById(part.id);
      if (fresh && fresh.innerHTML !== part.innerHTML) part.replaceChildren(...fresh.childNodes);
    } catch {
      // The server is away for a moment; the page stays as it is.
    }
  }, seconds * 1000);
}
