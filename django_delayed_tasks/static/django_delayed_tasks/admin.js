"use strict";
// A page of an action in portions submits the next portion.
const next = document.querySelector("form[data-ddt-continue]");
if (next) {
    next.requestSubmit();
}
