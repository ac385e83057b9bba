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

// A part that is marked is fetched again when something happens on the server, and every few seconds in any case, as long as
// the page is looked at and nobody types in it.
const parts = [...document.querySelectorAll("[data-live]")];
let fetching = false;
async function refresh(wanted) {
  const busy = (part) => part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select");
  if (fetching || document.hidden || wanted.every(busy)) return;
  fetching = true;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (!answer.ok || answer.redirected) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of wanted) {
      const fresh = page.getElementById(part.id);
      if (!fresh || busy(part) || fresh.innerHTML === part.innerHTML) continue;
      // What somebody opened stays open.
      const open = [...part.querySelectorAll("details")].map((details) => details.open);
      part.replaceChildren(...fresh.childNodes);
      part.querySelectorAll("details").forEach((details, place) => (details.open = open[place] ?? details.open));
      if (fresh.dataset.live) part.dataset.live = fresh.dataset.live;
    }
  } catch {
    // The server is away for a moment; the page stays as it is.
  } finally {
    fetching = false;
  }
}
for (const part of parts) {
  const again = () => setTimeout(async () => { await refresh([part]); again(); }, Number(part.dataset.live) * 1000);
  again();
}
if (parts.length > 0) {
  const events = new EventSource("/studio/events");
  let soon;
  const happened = () => {
    clearTimeout(soon);
    soon = setTimeout(() => refresh(parts), 250);
  };
  for (const kind of document.body.dataset.events.split(" ")) events.addEventListener(kind, happened);
  addEventListener("pagehide", () => events.close());
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
