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

// An editor is checked as somebody types: each problem goes to its field, and what the tool would be stands below.
for (const form of document.querySelectorAll("form[data-check]")) {
  const checked = document.getElementById("checked");
  let pause;
  let asked = 0;
  const check = async () => {
    const number = ++asked;
    const answer = await fetch(form.dataset.check, { method: "POST", body: new URLSearchParams(new FormData(form)) }).catch(() => null);
    if (!answer?.ok || answer.redirected || number !== asked) return;
    const part = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const list of form.querySelectorAll("ul.problems")) list.replaceChildren();
    for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
    for (const told of part.querySelectorAll("li[data-field]")) {
      form.querySelector(`#${CSS.escape(told.dataset.field)}-problems`)?.append(told);
      form.querySelector(`#${CSS.escape(told.dataset.field)}`)?.setAttribute("aria-invalid", "true");
    }
    const open = [...checked.querySelectorAll("details")].map((details) => details.open);
    checked.replaceChildren(...part.body.childNodes);
    checked.querySelectorAll("details").forEach((details, place) => (details.open = open[place] ?? false));
  };
  form.addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(check, 300);
  });
  check();
}
