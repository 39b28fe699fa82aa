// Jobs: the state of one, and the jobs that were given up.

import { get, getLetters, post } from "./api.mjs";
import { count, Failure, Field, FormDialog, formatNumber, html, Loading, Reason, reasonOf, Time, useAction, useEffect, useLoad, useState } from "./view.mjs";

const PAGE = 50;

function Job() {
  const { busy, problem, run } = useAction();
  const [job, setJob] = useState(null);
  const send = (event) => {
    event.preventDefault();
    const id = new FormData(event.currentTarget).get("id").trim();
    setJob(null);
    run(async () => setJob(await get(`/jobs/${encodeURIComponent(id)}`)));
  };
  return html`<section class="card">
    <h2>Find a job</h2>
    <form class="row" onSubmit=${send}>
      <${Field} label="Identifier">${(attributes) => html`<input ...${attributes} name="id" required autocomplete="off" spellcheck="false" placeholder="0197f2a4-8c1e-7b54-9d7b-2f6f0a7f3c11" />`}<//>
      <button class="primary" disabled=${busy}>Find</button>
    </form>
    <${Failure} problem=${problem} />
    <div role="status">${job && html`<dl class="facts">
      <div><dt>State</dt><dd><span class=${`state ${job.status}`}>${job.status}</span></dd></div>
      <div><dt>Task</dt><dd>${job.task}${job.client_id && ` (${job.client_id})`}</dd></div>
      <div><dt>Attempts</dt><dd>${job.attempts}</dd></div>
      ${job.started_at && html`<div><dt>Started</dt><dd><${Time} at=${job.started_at} /></dd></div>`}
      ${job.finished_at && html`<div><dt>Finished</dt><dd><${Time} at=${job.finished_at} /></dd></div>`}
      ${job.error && html`<div><dt>Error</dt><dd class="note">${job.error}</dd></div>`}
    </dl>`}</div>
  </section>`;
}

// The body of a dead letter, which is loaded when it is opened.
function Letter({ id }) {
  const { data, problem } = useLoad(() => getLetters(`/${id}`), [id]);
  if (problem) return html`<${Failure} problem=${problem} />`;
  if (!data) return html`<${Loading} />`;
  return html`${data.encoding !== "text" && html`<p class="quiet">Shown as ${data.encoding}.</p>`}<pre tabindex="0">${data.body}</pre>`;
}

function Row({ letter, isChosen, onChoose }) {
  const [isOpen, setOpen] = useState(false);
  return html`<tr>
    <td>${letter.id && html`<input type="checkbox" aria-label=${`Choose ${letter.id}`} checked=${isChosen} onChange=${onChoose} />`}</td>
    <td data-label="Job" class="wide"><strong>${letter.task}</strong>${letter.client_id && ` (${letter.client_id})`}<br /><code>${letter.id ?? "no job"}</code></td>
    <td data-label="Reason" class="wide">${letter.reason ?? "–"}
      ${letter.id && html`<details onToggle=${(event) => setOpen(event.currentTarget.open)}><summary>Body</summary>${isOpen && html`<${Letter} id=${letter.id} />`}</details>`}</td>
    <td data-label="Given up">${letter.died_at ? html`<${Time} at=${letter.died_at} />` : "–"}</td>
  </tr>`;
}

const ACTIONS = {
  replay: { verb: "Replay", done: "Replayed", explanation: "The jobs run again, with the same identifiers." },
  drop: { verb: "Drop", done: "Dropped", explanation: "The jobs are deleted for good.", danger: true },
};

function SweepDialog({ action, ids, onDone, onClose }) {
  const { verb, done, explanation, danger } = ACTIONS[action];
  const submit = async (form) => {
    const swept = await post(`/api/admin/dead-letters/${action}`, { ...(ids ? { ids } : { all: true }), reason: reasonOf(form) });
    const kept = swept.kept > 0 ? ` Left in place, because they are no jobs: ${formatNumber(swept.kept)}.` : "";
    const gone = swept.missing.length > 0 ? ` ${formatNumber(swept.missing.length)} were no longer there.` : "";
    onDone(`${done}: ${formatNumber(swept.done)}.${kept}${gone}${swept.complete ? "" : " More are left: repeat it."}`);
  };
  const title = `${verb} ${ids ? count(ids.length, "dead letter") : "all dead letters"}`;
  return html`<${FormDialog} title=${title} submit=${verb} danger=${danger} onSubmit=${submit} onClose=${onClose}>
    ${(problem) => html`<p>${explanation}</p><${Reason} problem=${problem} />`}
  <//>`;
}

function DeadLetters() {
  const [skip, setSkip] = useState(0);
  const { data, problem, reload } = useLoad(() => getLetters("", { skip, limit: PAGE }), [skip]);
  const [chosen, setChosen] = useState(new Set());
  const [dialog, setDialog] = useState(null);
  const [result, setResult] = useState(null);
  // Only what is on the screen can be chosen.
  useEffect(() => setChosen(new Set()), [data]);
  const choose = (id) => {
    const changed = new Set(chosen);
    if (!changed.delete(id)) changed.add(id);
    setChosen(changed);
  };
  const finish = (text) => {
    setResult(text);
    setSkip(0);
    reload();
  };
  const letters = data?.dead_letters ?? [];
  const button = (action, ids, label) => html`<button
    type="button"
    class=${ACTIONS[action].danger && "danger"}
    disabled=${ids ? ids.length === 0 : !data?.total}
    onClick=${() => setDialog({ action, ids })}
  >${ACTIONS[action].verb} ${label}</button>`;
  return html`<section class="card">
    <h2>Dead letters</h2>
    <p class="quiet">Jobs that failed too often. ${data && `There are ${formatNumber(data.total)} now.`}</p>
    <${Failure} problem=${problem} />
    ${result && html`<p class="message good" role="status">${result}</p>`}
    ${!data && !problem && html`<${Loading} />`}
    <div class="actions">
      ${button("replay", [...chosen], chosen.size)}
      ${button("drop", [...chosen], chosen.size)}
      ${button("replay", null, "all")}
      ${button("drop", null, "all")}
      <button type="button" class="small" onClick=${reload}>Refresh</button>
    </div>
    ${letters.length > 0 && html`<table>
      <caption class="hidden">Dead letters</caption>
      <thead><tr><th><span class="hidden">Choose</span></th><th>Job</th><th>Reason</th><th>Given up</th></tr></thead>
      <tbody>${letters.map((letter, place) => html`<${Row} key=${letter.id ?? place} letter=${letter} isChosen=${chosen.has(letter.id)} onChoose=${() => choose(letter.id)} />`)}</tbody>
    </table>`}
    <div class="actions">
      ${skip > 0 && html`<button type="button" onClick=${() => setSkip(Math.max(0, skip - PAGE))}>Previous</button>`}
      ${data?.next_skip && html`<button type="button" onClick=${() => setSkip(data.next_skip)}>Next</button>`}
    </div>
    ${dialog && html`<${SweepDialog} ...${dialog} onDone=${finish} onClose=${() => setDialog(null)} />`}
  </section>`;
}

export function JobsPage({ overview }) {
  if (!overview.stores.queue) return html`<h1>Jobs</h1><p>The profile <code>queue</code> of this service is off, so it runs no jobs.</p>`;
  return html`
    <h1>Jobs</h1>
    <${Job} />
    ${overview.client.scopes.includes("admin") ? html`<${DeadLetters} />` : html`<p class="quiet">Dead letters need a key with the scope admin.</p>`}
  `;
}
