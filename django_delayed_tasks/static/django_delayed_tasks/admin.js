"use strict";
// The top of the page of a task that is running or due is refreshed, unless the page is hidden.
const PERIOD = 3000;

async function refresh() {
    const shown = document.querySelector("#ddt-summary[data-ddt-refresh]");
    if (!shown || document.hidden) {
        return;
    }
    const response = await fetch(location.href);
    if (response.redirected) { // the task is gone: its last run is shown
        location.assign(response.url);
        return;
    }
    if (!response.ok) {
        return;
    }
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const found = page.querySelector("#ddt-summary");
    const isEdited = document.querySelector("details.ddt-form[open] [name=_save]");
    if (found && found.dataset.seen !== shown.dataset.seen && !isEdited) {
        location.reload();
    } else if (found && !shown.contains(document.activeElement)) {
        shown.replaceWith(found);
    }
}

if (document.querySelector("#ddt-summary[data-ddt-refresh]")) {
    setInterval(() => refresh().catch(() => undefined), PERIOD);
}
