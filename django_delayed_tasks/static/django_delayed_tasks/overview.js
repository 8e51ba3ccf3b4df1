// Refreshes the overview: replaces the sections that have changed, and pauses while the page is hidden.
"use strict";
(function () {
  let timer = 0;

  function address() {
    const query = new URLSearchParams(window.location.search);
    query.set("fragment", "1");
    return window.location.pathname + "?" + query;
  }

  function isInUse(section) {
    // A hover text, an open selection or the focus would be lost.
    const selection = window.getSelection();
    const isSelected = selection && !selection.isCollapsed && selection.containsNode(section, true);
    return section.querySelector(".ddt-hover:hover") || section.contains(document.activeElement) || isSelected;
  }

  function replace(section, fresh) {
    const open = [...section.querySelectorAll("details[open]")].map((details) => details.id);
    for (const id of open) {
      const details = fresh.querySelector("#" + CSS.escape(id));
      if (details) details.open = true;
    }
    if (section.outerHTML !== fresh.outerHTML && !isInUse(section)) section.replaceWith(fresh);
  }

  function show(html) {
    const fresh = new DOMParser().parseFromString(html, "text/html");
    for (const section of document.querySelectorAll("#ddt-overview section[id]")) {
      const other = fresh.getElementById(section.id);
      if (other) replace(section, document.importNode(other, true));
    }
  }

  async function refresh(root, live) {
    try {
      const response = await fetch(address(), { credentials: "same-origin" });
      if (!response.ok || response.redirected) throw new Error(response.statusText);
      show(await response.text());
      live.textContent = "";
    } catch (error) {
      live.textContent = live.dataset.lost;
    }
    plan(root, live);
  }

  function plan(root, live) {
    window.clearTimeout(timer);
    if (document.hidden) {
      live.textContent = live.dataset.paused;
    } else {
      timer = window.setTimeout(() => refresh(root, live), 1000 * Number(root.dataset.seconds));
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    const root = document.getElementById("ddt-overview");
    const live = document.getElementById("ddt-live");
    if (!root || !live) return;
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) plan(root, live);
      else refresh(root, live);
    });
    plan(root, live);
  });
})();
