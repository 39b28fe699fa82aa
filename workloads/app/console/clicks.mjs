// The clicks on a link by day, as a chart and as a table for those who do not see it.

import { get, linkPath } from "./api.mjs";
import { Failure, formatNumber, html, Loading, useLoad, useState } from "./view.mjs";

// The size of the chart in units of its own, which the page scales.
const WIDTH = 600;
const HEIGHT = 160;
// The part of the width of a day that its bar has.
const BAR = 0.8;
const DAY_MS = 86_400_000;
const PERIODS = [30, 90, 365];

const dayOf = (time) => new Date(time).toISOString().slice(0, 10);

// One bar for each day; people below, programs above them.
function Chart({ days }) {
  const most = Math.max(1, ...days.map(({ people, bots }) => people + bots));
  const width = WIDTH / days.length;
  const height = (clicks) => (clicks / most) * HEIGHT;
  const bar = ({ day, people, bots }, place) => {
    const left = place * width + (width * (1 - BAR)) / 2;
    return html`<g key=${day}>
      <title>${`${day}: ${formatNumber(people)} by people, ${formatNumber(bots)} by programs`}</title>
      <rect class="touch" x=${place * width} y="0" width=${width} height=${HEIGHT} />
      <rect class="people" x=${left} y=${HEIGHT - height(people)} width=${width * BAR} height=${height(people)} />
      <rect class="bots" x=${left} y=${HEIGHT - height(people + bots)} width=${width * BAR} height=${height(bots)} />
    </g>`;
  };
  return html`<figure class="chart">
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">${days.map(bar)}</svg>
    <figcaption>
      <span>${days[0].day}</span>
      <span><span class="key people"></span> people <span class="key bots"></span> programs, at most ${formatNumber(most)} a day</span>
      <span>${days.at(-1).day}</span>
    </figcaption>
  </figure>`;
}

const Table = ({ days }) => html`<details>
  <summary>As a table</summary>
  <table>
    <thead><tr><th>Day</th><th class="number">People</th><th class="number">Programs</th></tr></thead>
    <tbody>${days.filter(({ people, bots }) => people + bots > 0).map(
      ({ day, people, bots }) => html`<tr key=${day}>
        <td data-label="Day">${day}</td>
        <td data-label="People" class="number">${formatNumber(people)}</td>
        <td data-label="Programs" class="number">${formatNumber(bots)}</td>
      </tr>`,
    )}</tbody>
  </table>
</details>`;

export function Clicks({ code }) {
  const [period, setPeriod] = useState(PERIODS[0]);
  const load = () => get(linkPath(code, "/clicks"), { from: dayOf(Date.now() - (period - 1) * DAY_MS), to: dayOf(Date.now()) });
  const { data, problem, reload } = useLoad(load, [code, period]);
  return html`<section class="card">
    <h2>Clicks</h2>
    <div class="actions">
      <label for="days">Days</label>
      <select id="days" class="short" value=${period} onChange=${(event) => setPeriod(Number(event.currentTarget.value))}>
        ${PERIODS.map((days) => html`<option key=${days} value=${days}>${days}</option>`)}
      </select>
      <button type="button" class="small" onClick=${reload}>Refresh</button>
    </div>
    <${Failure} problem=${problem} />
    ${!data && !problem && html`<${Loading} />`}
    ${data && html`
      <p role="status"><strong>${formatNumber(data.people)}</strong> by people, <strong>${formatNumber(data.bots)}</strong> by programs, by UTC day.</p>
      ${data.people + data.bots > 0 && html`<${Chart} days=${data.days} /><${Table} days=${data.days} />`}
    `}
  </section>`;
}
