// The state of the service as the replica that answers sees it, and what to do.

import { getLetters } from "./api.mjs";
import { count, Failure, html, useEffect, useLoad } from "./view.mjs";

const REFRESH_MS = 15_000;

// Each store: its name, the profile that it belongs to, and what its failure means.
const STORES = {
  database: { title: "Database", down: "Links of the cache are still followed; everything else is refused until the database is back." },
  cache: { title: "Cache", profile: "caching", down: "Redirects ask the database, so they are slower and nothing is lost." },
  queue: { title: "Queue", profile: "queue", down: "New jobs are refused, and jobs that were accepted wait." },
  vector: { title: "Vector store", profile: "vector", down: "Searches are refused. With the profile queue, documents are stored and follow later." },
};

function Row({ name, state }) {
  const { title, profile, down } = STORES[name];
  if (!state) {
    return html`<tr><td data-label="Part">${title}</td><td data-label="State"><span class="state">off</span></td><td data-label="Meaning" class="wide quiet">The profile ${profile} is not enabled.</td></tr>`;
  }
  return html`<tr>
    <td data-label="Part">${title}</td>
    <td data-label="State"><span class=${`state ${state.up ? "live" : "disabled"}`}>${state.up ? "up" : "down"}</span></td>
    <td data-label="Meaning" class="wide">${state.reason && html`<strong>${state.reason}.</strong> `}${!state.up && down}</td>
  </tr>`;
}

// Asks again whenever the overview has changed.
function DeadLetters({ overview }) {
  const { data, problem } = useLoad(() => getLetters("", { limit: 1 }), [overview]);
  if (problem) return html`<p class="message bad" role="alert">The number of dead letters is not known: ${problem.message}</p>`;
  if (!data?.total) return null;
  return html`<p class="message"><a href="#/jobs">${count(data.total, "dead letter")}</a>: find out why they failed, then replay or drop them.</p>`;
}

function Verdict({ stores, problem }) {
  if (problem) return html`<${Failure} problem=${problem} /><p class="quiet">What follows is from the last answer.</p>`;
  const isImpaired = Object.values(stores).some((state) => state && (!state.up || state.reason));
  return isImpaired
    ? html`<p class="message bad" role="alert">A part of the service is impaired. <code>kubectl shortener status</code> lists what the operator found and the remedy.</p>`
    : html`<p class="message good" role="status">Every part is up.</p>`;
}

// `onRefresh` asks for the overview again, and `problem` is why that failed the last time.
export function ServicePage({ overview, problem, onRefresh }) {
  useEffect(() => {
    onRefresh();
    const timer = setInterval(onRefresh, REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  const { stores, client } = overview;
  return html`
    <h1>Service</h1>
    <${Verdict} stores=${stores} problem=${problem} />
    ${stores.queue && client.scopes.includes("admin") && html`<${DeadLetters} overview=${overview} />`}
    <table>
      <caption class="hidden">Parts of the service</caption>
      <thead><tr><th>Part</th><th>State</th><th>Meaning</th></tr></thead>
      <tbody>
        ${Object.keys(STORES).map((name) => html`<${Row} key=${name} name=${name} state=${stores[name]} />`)}
      </tbody>
    </table>
    <dl class="facts">
      <div><dt>Traces</dt><dd>${overview.traces ? "sent to the collector" : "off: the profile observability is not enabled"}</dd></div>
      <div><dt>Clicks</dt><dd>${overview.clicks ? "counted" : "not counted"}</dd></div>
      <div><dt>Hosts</dt><dd>${overview.hosts.join(", ")}</dd></div>
      <div><dt>Replica</dt><dd>${overview.replica}, version ${overview.version}</dd></div>
      <div><dt>You</dt><dd>${client.name}, with ${client.scopes.join(", ")}</dd></div>
    </dl>
  `;
}
