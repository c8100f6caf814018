// Refreshes the tables of a live page each second, and draws its figures with Vega-Lite.
"use strict";

const TABLES_MILLISECONDS = 1000;
const FIGURES_MILLISECONDS = 10000;
const room = document.getElementById("room");
const pause = document.getElementById("pause");
const scheme = matchMedia("(prefers-color-scheme: dark)");

function isRunning() {
  return room.dataset.live === "yes" && pause?.getAttribute("aria-pressed") !== "true" && !document.hidden;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function look() {
  const ink = colour("--ink"), quiet = colour("--quiet"), rule = colour("--rule");
  const font = getComputedStyle(document.body).fontFamily;
  return {
    background: null,
    font,
    view: { stroke: null, continuousWidth: 300 },
    axis: { labelColor: quiet, titleColor: quiet, gridColor: rule, domainColor: rule, tickColor: rule, labelFontSize: 12,
      titleFontSize: 12, titleFontWeight: "normal" },
    text: { color: ink },
    header: { labelColor: ink, labelFontSize: 13, labelFontWeight: "bold", labelAnchor: "start", labelAngle: 0,
      labelOrient: "top" },
    legend: { labelColor: ink, titleColor: quiet, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal" },
  };
}

function fitted(document, width) {
  // A facet has no width of its own.
  if (document.spec) {
    return { ...document, spec: { ...document.spec, width: Math.max(width - 70, 180) } };
  }
  return { width: "container", ...document };
}

async function draw(figure) {
  const answer = await fetch(figure.dataset.figure);
  const place = document.createElement("div");
  place.className = "canvas";
  if (answer.status === 200) {
    figure.append(place);
    const document = fitted(await answer.json(), figure.clientWidth);
    const made = await vegaEmbed(place, { ...document, config: { ...document.config, ...look() } }, {
      actions: false, ast: true, defaultStyle: false, renderer: "canvas", tooltip: { disableDefaultStyle: true },
    });
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", figure.dataset.title);
    figure.view?.finalize();
    figure.view = made.view;
  } else {
    place.className = "none";
    place.textContent = answer.status === 204 ? figure.dataset.none : "the room did not draw this figure";
  }
  figure.replaceChildren(place);
}

async function drawAll() {
  for (const figure of document.querySelectorAll("figure[data-figure]")) {
    await draw(figure).catch((error) => { figure.replaceChildren(`the figure cannot be drawn: ${error.message}`); });
  }
  room.dataset.drawn = "yes";
}

function filter(input) {
  const wanted = input.value.toLowerCase();
  for (const row of document.querySelectorAll(`[data-part="${input.dataset.filter}"] tbody tr`)) {
    row.hidden = !row.textContent.toLowerCase().includes(wanted);
  }
}

function filterAll() {
  document.querySelectorAll("input[data-filter]").forEach(filter);
}

function replace(part, fresh) {
  const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  part.replaceChildren(...fresh.childNodes);
  if (focused !== null) {
    [...part.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
  }
}

async function refresh() {
  const answer = await fetch(location.href);
  if (!answer.ok) {
    throw new Error(`it says ${answer.status}`);
  }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll("[data-part]")) {
    const fresh = page.querySelector(`[data-part="${part.dataset.part}"]`);
    if (fresh !== null && fresh.innerHTML !== part.innerHTML) {
      replace(part, fresh);
    }
  }
  filterAll();
  room.dataset.refreshed = Number(room.dataset.refreshed ?? 0) + 1;
}

function tell(words) {
  const note = document.getElementById("lost");
  note?.remove();
  if (words) {
    const made = document.createElement("p");
    made.id = "lost";
    made.className = "note bad";
    made.setAttribute("role", "status");
    made.textContent = words;
    room.prepend(made);
  }
}

async function follow() {
  if (isRunning()) {
    await refresh().then(() => tell(""), (error) => tell(`The room does not answer: ${error.message}. It is asked again.`));
  }
  setTimeout(follow, TABLES_MILLISECONDS);
}

pause?.addEventListener("click", () => {
  const isPaused = pause.getAttribute("aria-pressed") === "true";
  pause.setAttribute("aria-pressed", String(!isPaused));
});
document.querySelectorAll("input[data-filter]").forEach((input) => input.addEventListener("input", () => filter(input)));
scheme.addEventListener("change", drawAll);
setInterval(() => { if (isRunning()) drawAll(); }, FIGURES_MILLISECONDS);
setTimeout(follow, TABLES_MILLISECONDS);
drawAll();
