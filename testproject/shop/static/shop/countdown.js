// Keeps the countdowns running between two loads of the page.
const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

function duration(seconds) {
  const parts = [];
  for (const [unit, size] of units) {
    const count = Math.floor(seconds / size);
    seconds -= count * size;
    if (count) parts.push(`${count} ${unit}`);
  }
  return parts.slice(0, 2).join(" ") || "0 s";
}

function tick() {
  for (const time of document.querySelectorAll("time.countdown")) {
    const left = Math.ceil((Date.parse(time.dateTime) - Date.now()) / 1000);
    time.textContent = left > 0 ? `in ${duration(left)}` : "now";
  }
}

tick();
setInterval(tick, 1000);
