// What every page is made of: htm's templates, Preact's hooks, and small parts.

import { h } from "./vendor/preact.mjs";
import { useEffect, useId, useRef, useState } from "./vendor/hooks.mjs";
import htm from "./vendor/htm.mjs";

export { render } from "./vendor/preact.mjs";
export { useEffect, useId, useRef, useState };
export const html = htm.bind(h);

const number = new Intl.NumberFormat("en");
const moment = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
export const formatNumber = (value) => number.format(value);

// Returns a number with its noun: `1 line`, `2 lines`.
export const count = (value, noun) => `${formatNumber(value)} ${noun}${value === 1 ? "" : "s"}`;

// A time, in the zone of the reader; the title has it as the API does.
export const Time = ({ at }) => html`<time datetime=${at} title=${at}>${moment.format(new Date(at))}</time>`;

// Loads what a page shows. Returns `{data, problem, reload}`; the data stays while it is loaded again. A later load replaces an
// earlier one that has not ended.
export function useLoad(load, inputs) {
  const [state, setState] = useState({});
  const [round, setRound] = useState(0);
  useEffect(() => {
    let isCurrent = true;
    load().then(
      (data) => isCurrent && setState({ data }),
      (problem) => isCurrent && setState((before) => ({ data: before.data, problem })),
    );
    return () => {
      isCurrent = false;
    };
  }, [...inputs, round]);
  return { ...state, reload: () => setRound((before) => before + 1) };
}

// Runs one action at a time. Returns `{busy, problem, run}`; `run` returns true if the action succeeded.
export function useAction() {
  const [state, setState] = useState({ busy: false, problem: null });
  const run = async (action) => {
    setState({ busy: true, problem: null });
    try {
      await action();
      setState({ busy: false, problem: null });
      return true;
    } catch (problem) {
      setState({ busy: false, problem });
      return false;
    }
  };
  return { ...state, run };
}

// The message of a problem. `fields` are those that show their own.
export function Failure({ problem, fields = [] }) {
  if (!problem) return null;
  const named = Object.keys(problem.fields ?? {});
  const isShown = named.length > 0 && named.every((field) => fields.includes(field));
  return html`<p class="message bad" role="alert">${isShown ? "Check the marked fields." : problem.message}</p>`;
}

export const Loading = () => html`<p class="quiet" role="status">Loading …</p>`;

// A field of a form with its label, a hint, and the rule that its value breaks. `children` is a function from the attributes of
// the input to the input.
export function Field({ label, hint, problem, children }) {
  const id = useId();
  const notes = [hint && `${id}-hint`, problem && `${id}-rule`].filter(Boolean).join(" ");
  const attributes = { id, "aria-describedby": notes || undefined, "aria-invalid": problem ? "true" : undefined };
  return html`<div class="field">
    <label for=${id}>${label}</label>
    ${children(attributes)}
    ${hint && html`<small id=${`${id}-hint`}>${hint}</small>`}
    ${problem && html`<small id=${`${id}-rule`} class="rule">${label} ${problem}.</small>`}
  </div>`;
}

export const Check = ({ label, ...attributes }) => {
  const id = useId();
  return html`<div class="check"><input type="checkbox" id=${id} ...${attributes} /><label for=${id}>${label}</label></div>`;
};

// A button that copies a text, and says so.
export function Copy({ text }) {
  const [result, setResult] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setResult("Copied");
    } catch {
      // Without TLS a browser has no clipboard for pages.
      setResult("Select the text to copy it");
    }
  };
  useEffect(() => setResult(""), [text]);
  return html`<button type="button" class="small" onClick=${copy} aria-label=${`Copy ${text}`}>${result || "Copy"}</button><span class="hidden" role="status">${result}</span>`;
}

// Gives the focus to the page if what had it is gone.
export function keepFocus() {
  requestAnimationFrame(() => {
    if (document.activeElement === document.body) document.getElementById("content")?.focus({ preventScroll: true });
  });
}

// A dialog with a form, open from its first moment. `onSubmit` gets the form. The dialog closes when it has succeeded, and not
// before it has ended.
export function FormDialog({ title, submit, danger, onSubmit, onClose, children }) {
  const dialog = useRef();
  const { busy, problem, run } = useAction();
  const id = useId();
  useEffect(() => dialog.current.showModal(), []);
  const send = async (event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    if (await run(() => onSubmit(form))) dialog.current.close();
  };
  const closed = () => {
    onClose();
    keepFocus();
  };
  return html`<dialog ref=${dialog} aria-labelledby=${id} onClose=${closed} onCancel=${(event) => busy && event.preventDefault()}>
    <form onSubmit=${send}>
      <h2 id=${id}>${title}</h2>
      ${children(problem)}
      <${Failure} problem=${problem} />
      <div class="actions">
        <button class=${danger ? "danger" : "primary"} disabled=${busy}>${submit}</button>
        <button type="button" disabled=${busy} onClick=${() => dialog.current.close()}>Cancel</button>
      </div>
    </form>
  </dialog>`;
}

// The reason of a change, which the audit log keeps.
export const Reason = ({ problem, required }) => html`<${Field}
  label="Reason"
  hint="For the operators of the service: the audit log keeps it."
  problem=${problem?.fields?.reason}
>${(attributes) => html`<input ...${attributes} name="reason" maxlength="500" required=${required} autocomplete="off" />`}<//>`;
export const reasonOf = (form) => form.get("reason") || undefined;
