// Updates the live parts of a page by server-sent events, and asks before dangerous actions. Pages work without it.
"use strict";

(() => {
  const policy = window.trustedTypes
    ? window.trustedTypes.createPolicy("console", { createHTML: (html) => html })
    : { createHTML: (html) => html };
  const waiting = new Map();
  let source = null;
  let isPaused = false;

  // A part with the focus, or with selected text, is replaced later: nothing moves away from under a reader.
  const isInUse = (part) => {
    const active = document.activeElement;
    const selection = document.getSelection();
    return (
      (active !== null && active !== part && part.contains(active) && active.matches("a, button, input, select, textarea, summary")) ||
      (selection !== null && !selection.isCollapsed && part.contains(selection.anchorNode))
    );
  };

  const show = (name, html) => {
    const part = document.querySelector(`[data-live="${CSS.escape(name)}"]`);
    if (part === null) return;
    if (isPaused || isInUse(part)) {
      waiting.set(name, html);
      return;
    }
    waiting.delete(name);
    const open = new Set([...part.querySelectorAll("details[open][id]")].map((each) => each.id));
    const places = new Map([...part.querySelectorAll(".scroll")].map((each, i) => [i, each.scrollLeft]));
    part.innerHTML = policy.createHTML(html);
    for (const id of open) part.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
    part.querySelectorAll(".scroll").forEach((each, i) => { each.scrollLeft = places.get(i) ?? 0; });
  };

  const showWaiting = () => { for (const [name, html] of [...waiting]) show(name, html); };

  const state = document.querySelector("[data-live-state]");
  const say = (text) => {
    const line = state?.querySelector("[role=status]");
    if (line && line.textContent !== text) line.textContent = text;
  };

  const close = () => { source?.close(); source = null; };
  const open = () => {
    if (source !== null || isPaused || document.hidden) return;
    source = new EventSource(location.pathname + location.search);
    source.addEventListener("open", () => say("Live"));
    source.addEventListener("part", (event) => {
      const { name, html } = JSON.parse(event.data);
      show(name, html);
    });
    source.addEventListener("ended", () => { close(); say("Logged out"); location.reload(); });
    source.addEventListener("error", () => {
      const isOver = source?.readyState === EventSource.CLOSED;
      say(isOver ? "Not live: reload the page" : "Reconnecting");
      if (isOver) close();
    });
  };

  if (document.body.hasAttribute("data-live-page") && state !== null) {
    state.hidden = false;
    const button = state.querySelector("[data-pause]");
    button.addEventListener("click", () => {
      isPaused = !isPaused;
      button.textContent = isPaused ? "Resume" : "Pause";
      say(isPaused ? "Paused" : "Live");
      if (isPaused) close();
      else { showWaiting(); open(); }
    });
    document.addEventListener("focusout", () => setTimeout(showWaiting));
    document.addEventListener("selectionchange", () => { if (waiting.size > 0) showWaiting(); });
    document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
    open();
  }

  // On a phone the navigation scrolls, and begins with the current page in view.
  const menu = document.querySelector(".menu");
  const current = menu?.querySelector("[aria-current]");
  const center = () => { menu.scrollLeft = current.offsetLeft - (menu.clientWidth - current.offsetWidth) / 2; };
  if (current) {
    center();
    window.addEventListener("resize", center);
  }

  document.addEventListener("submit", (event) => {
    const question = event.submitter?.dataset.confirm || event.target.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-copy]");
    if (!button) return;
    const text = document.getElementById(button.dataset.copy)?.textContent ?? "";
    navigator.clipboard?.writeText(text.trim()).then(() => { button.textContent = "Copied"; });
  });
})();
