// A link as pages show it and as forms have it.

import { Field, html } from "./view.mjs";

const STATES = { live: "Live", expired: "Expired", disabled: "Disabled", deleted: "Deleted" };
export const stateNames = Object.entries(STATES);

// The state of a link as a word with a color.
export const State = ({ state }) => html`<span class=${`state ${state}`}>${STATES[state]}</span>`;

// An address as text and nothing else: no page follows a destination by itself.
export const Destination = ({ url, host }) =>
  url ? html`<span>${url}</span>` : html`<span class="quiet">removed${host && ` (was at ${host})`}</span>`;

export const Tags = ({ tags }) => tags.map((tag) => html`<a key=${tag} class="tag" href=${`#/links?${new URLSearchParams({ tag })}`}>${tag}</a>`);

export const readTags = (text) => {
  const tags = text.split(",").map((tag) => tag.trim());
  return tags.filter((tag) => tag !== "");
};

// Returns a time as an input of a form has it: in the zone of its user, to the minute.
export function localTime(time) {
  if (!time) return "";
  const date = new Date(time);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

// The fields that a link has before and after its creation. Forms keep what their users have written when they are drawn again,
// so fields have a default and no value.
export const Labels = ({ link = {}, problem }) => html`
  <${Field} label="Title" problem=${problem?.fields?.title}>${(attributes) => html`<input ...${attributes} name="title" maxlength="200" defaultValue=${link.title ?? ""} autocomplete="off" />`}<//>
  <${Field} label="Tags" hint="Separated by commas, at most 10." problem=${problem?.fields?.tags}>${(attributes) => html`<input ...${attributes} name="tags" defaultValue=${link.tags?.join(", ") ?? ""} autocomplete="off" />`}<//>
  <${Field} label="Expires" hint="Without a time, never." problem=${problem?.fields?.expires_at}>${(attributes) => html`<input ...${attributes} name="expires_at" type="datetime-local" defaultValue=${localTime(link.expires_at)} />`}<//>
  <${Field} label="Note" problem=${problem?.fields?.note}>${(attributes) => html`<textarea ...${attributes} name="note" maxlength="1000" rows="2" defaultValue=${link.note ?? ""} />`}<//>
`;

// Reads these fields. A field without a value is null.
export function readLabels(form) {
  const text = (name) => form.get(name).trim() || null;
  const expires = text("expires_at");
  return {
    title: text("title"),
    tags: readTags(form.get("tags")),
    expires_at: expires && new Date(expires).toISOString(),
    // A form has other line breaks than the API.
    note: text("note")?.replaceAll("\r\n", "\n") ?? null,
  };
}

// Returns those of the fields that the form changes, so that an edit leaves alone what others changed meanwhile.
export function changedLabels(link, form) {
  const { title, tags, expires_at, note } = readLabels(form);
  const changed = {};
  if (title !== link.title) changed.title = title;
  if (tags.join() !== link.tags.join()) changed.tags = tags;
  // A form knows minutes.
  if (form.get("expires_at") !== localTime(link.expires_at)) changed.expires_at = expires_at;
  if (note !== link.note) changed.note = note;
  return changed;
}
