// Shows what is wrong with the delayed tasks above a page of the admin, once the page has loaded, and keeps it current.
"use strict";
(function () {
  const banner = document.getElementById("ddt-banner");

  async function refresh() {
    try {
      const response = await fetch(banner.dataset.address, { credentials: "same-origin" });
      if (response.ok && !response.redirected) show(await response.text());
    } catch (error) {
      // The server does not answer: what was shown last remains.
    }
  }

  function show(html) {
    const fresh = new DOMParser().parseFromString(html, "text/html").body;
    if (fresh.innerHTML.trim() === banner.innerHTML.trim()) return;
    banner.replaceChildren(...fresh.childNodes);
    banner.hidden = !banner.childElementCount;
  }

  if (banner) {
    refresh();
    window.setInterval(() => { if (!document.hidden) refresh(); }, 1000 * Number(banner.dataset.seconds));
  }
})();
