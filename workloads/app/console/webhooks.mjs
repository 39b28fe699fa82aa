// Webhooks: the receivers, and the messages that were not delivered to them.

import { get, post } from "./api.mjs";
import { count, Failure, FormDialog, formatNumber, html, Loading, Reason, reasonOf, Time, useEffect, useLoad, useState } from "./view.mjs";

const PATH = "/api/admin/webhooks";
const PAGE = 50;
/** The number up to which the service counts. */
const MOST = 10000;
const STATES = { pending: "pending", failing: "failing", given_up: "given up" };
const ERRORS = {
  private_address: "the address is private",
  timeout: "no answer in time",
  unresolved: "the name is unknown",
  unreachable: "no connection",
  broken_answer: "a broken answer",
};

const counted = (number) => formatNumber(number) + (number < MOST ? "" : " or more");

function Receivers({ receivers, onChoose, onRetry }) {
  return html`<table>
    <caption class="hidden">Receivers</caption>
    <thead><tr><th>Receiver</th><th>Events</th><th class="number">Pending</th><th class="number">Failing</th><th class="number">Given up</th><th>Last success</th><th><span class="hidden">Actions</span></th></tr></thead>
    <tbody>${receivers.map(
      (receiver) => html`<tr key=${receiver.name}>
        <td data-label="Receiver" class="wide"><button type="button" class="small" aria-label=${`Show the messages to ${receiver.name}`} onClick=${() => onChoose(receiver.name)}>${receiver.name}</button><br /><code>${receiver.url}</code></td>
        <td data-label="Events">${receiver.events.map((event) => html`<span class="tag event">${event}</span>`)}</td>
        <td data-label="Pending" class="number">${counted(receiver.pending)}</td>
        <td data-label="Failing" class="number">${counted(receiver.failing)}</td>
        <td data-label="Given up" class="number">${counted(receiver.given_up)}</td>
        <td data-label="Last success">${receiver.last_success_at ? html`<${Time} at=${receiver.last_success_at} />` : "–"}</td>
        <td>${receiver.given_up > 0 && html`<button type="button" class="small" onClick=${() => onRetry({ receiver: receiver.name, number: receiver.given_up })}>Retry ${counted(receiver.given_up)}</button>`}</td>
      </tr>`,
    )}</tbody>
  </table>`;
}

function Row({ delivery, onRetry }) {
  const why = delivery.last_status ?? ERRORS[delivery.last_error];
  return html`<tr>
    <td data-label="Event" class="wide"><strong class="event">${delivery.event}</strong> <a href=${`#/links/${delivery.code}`}>${delivery.code}</a><br /><code>${delivery.message_id}</code></td>
    <td data-label="Receiver">${delivery.receiver}</td>
    <td data-label="Time"><${Time} at=${delivery.at} /></td>
    <td data-label="State"><span class=${`state ${delivery.state === "given_up" ? "failed" : delivery.state}`}>${STATES[delivery.state]}</span></td>
    <td data-label="Attempts" class="wide">${delivery.attempts === 0 ? "none yet" : `${count(delivery.attempts, "attempt")}, the last one: ${why ?? "unknown"}`}
      ${delivery.next_at && delivery.attempts > 0 && html`<br /><span class="quiet">again on <${Time} at=${delivery.next_at} /></span>`}</td>
    <td>${delivery.attempts > 0 && html`<button type="button" class="small" aria-label=${`Retry ${delivery.message_id}`} onClick=${() => onRetry({ id: delivery.id, number: 1 })}>Retry</button>`}</td>
  </tr>`;
}

function RetryDialog({ id, receiver, number, onDone, onClose }) {
  const submit = async (form) => {
    const reason = reasonOf(form);
    const answer = id ? await post(`${PATH}/deliveries/${id}/retry`, { reason }) : await post(`${PATH}/deliveries/retry`, { receiver, reason });
    onDone(`Due now: ${formatNumber(answer.retried)}.${answer.remaining ? " More are left: repeat it." : ""}`);
  };
  return html`<${FormDialog} title=${`Retry ${count(number, "message")}`} submit="Retry" onSubmit=${submit} onClose=${onClose}>
    ${(problem) => html`<p>They are sent again, with the same identities.</p><${Reason} problem=${problem} />`}
  <//>`;
}

function Deliveries({ receiver, receivers, round, onReceiver, onRetry }) {
  const [state, setState] = useState("");
  const [cursors, setCursors] = useState([]);
  const cursor = cursors.at(-1);
  const { data, problem } = useLoad(() => get(`${PATH}/deliveries`, { receiver, state, cursor, limit: PAGE }), [receiver, state, cursor, round]);
  useEffect(() => setCursors([]), [receiver, state]);
  const options = (values) => values.map(([value, label]) => html`<option key=${value} value=${value}>${label}</option>`);
  return html`<section class="card">
    <h2>Messages that were not delivered</h2>
    <div class="actions">
      <select class="short" aria-label="Receiver" value=${receiver} onChange=${(event) => onReceiver(event.currentTarget.value)}>
        ${options([["", "every receiver"], ...receivers.map(({ name }) => [name, name])])}
      </select>
      <select class="short" aria-label="State" value=${state} onChange=${(event) => setState(event.currentTarget.value)}>
        ${options([["", "every state"], ...Object.entries(STATES)])}
      </select>
    </div>
    <${Failure} problem=${problem} />
    ${!data && !problem && html`<${Loading} />`}
    ${data && data.deliveries.length === 0 && html`<p class="quiet">There are none.</p>`}
    ${data?.deliveries.length > 0 && html`<table>
      <caption class="hidden">Messages</caption>
      <thead><tr><th>Event</th><th>Receiver</th><th>Time</th><th>State</th><th>Attempts</th><th><span class="hidden">Actions</span></th></tr></thead>
      <tbody>${data.deliveries.map((delivery) => html`<${Row} key=${delivery.id} delivery=${delivery} onRetry=${onRetry} />`)}</tbody>
    </table>`}
    <div class="actions">
      ${cursors.length > 0 && html`<button type="button" onClick=${() => setCursors(cursors.slice(0, -1))}>Previous</button>`}
      ${data?.next && html`<button type="button" onClick=${() => setCursors([...cursors, data.next])}>Next</button>`}
    </div>
  </section>`;
}

function Webhooks() {
  const [receiver, setReceiver] = useState("");
  const [round, setRound] = useState(0);
  const [dialog, setDialog] = useState(null);
  const [result, setResult] = useState(null);
  const { data, problem } = useLoad(() => get(PATH), [round]);
  const refresh = () => setRound(round + 1);
  const finish = (text) => {
    setResult(text);
    refresh();
  };
  if (!data) return problem ? html`<${Failure} problem=${problem} />` : html`<${Loading} />`;
  if (data.receivers.length === 0) return html`<p>This service has no receivers. Add them to <code>links.webhooks</code> of the stack.</p>`;
  return html`<section class="card">
      <h2>Receivers</h2>
      <${Failure} problem=${problem} />
      ${result && html`<p class="message good" role="status">${result}</p>`}
      <${Receivers} receivers=${data.receivers} onChoose=${setReceiver} onRetry=${setDialog} />
      <div class="actions"><button type="button" class="small" onClick=${refresh}>Refresh</button></div>
    </section>
    <${Deliveries} receiver=${receiver} receivers=${data.receivers} round=${round} onReceiver=${setReceiver} onRetry=${setDialog} />
    ${dialog && html`<${RetryDialog} ...${dialog} onDone=${finish} onClose=${() => setDialog(null)} />`}`;
}

export function WebhooksPage({ overview }) {
  return html`
    <h1>Webhooks</h1>
    ${overview.client.scopes.includes("admin") ? html`<${Webhooks} />` : html`<p class="quiet">Webhooks need a key with the scope admin.</p>`}
  `;
}
