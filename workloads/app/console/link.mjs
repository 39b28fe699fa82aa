// One link: what it is, its QR code, its clicks, and what can be changed.

import { get, linkPath, post, request } from "./api.mjs";
import { Clicks } from "./clicks.mjs";
import { changedLabels, Destination, Labels, State, Tags } from "./fields.mjs";
import { Check, Copy, Failure, Field, FormDialog, formatNumber, html, keepFocus, Loading, Reason, reasonOf, Time, useEffect, useLoad, useState } from "./view.mjs";

const AS = { gone: "disabled", legal: "disabled for legal reasons", deleted: "deleted" };

const Fact = ({ label, children }) => html`<div><dt>${label}</dt><dd>${children}</dd></div>`;

function Facts({ link }) {
  const { disabled, owner } = link;
  return html`<dl class="facts">
    <${Fact} label="State"><${State} state=${link.state} /><//>
    <${Fact} label="Destination"><${Destination} url=${link.url} host=${link.host} />${link.template && html` <span class="quiet">(template)</span>`}<//>
    ${link.title && html`<${Fact} label="Title">${link.title}<//>`}
    ${link.tags.length > 0 && html`<${Fact} label="Tags"><${Tags} tags=${link.tags} /><//>`}
    ${link.note && html`<${Fact} label="Note"><span class="note">${link.note}</span><//>`}
    <${Fact} label="Created"><${Time} at=${link.created_at} /> by ${link.created_by ?? "somebody without a key"}<//>
    <${Fact} label="Expires">${link.expires_at ? html`<${Time} at=${link.expires_at} />` : "never"}<//>
    ${disabled && html`<${Fact} label="Takedown">${AS[disabled.as]} <${Time} at=${disabled.at} />${disabled.by && ` by ${disabled.by}`}
      ${disabled.reason && html`<br />Reason: ${disabled.reason}`}${disabled.notice && html`<br />Notice: ${disabled.notice}`}<//>`}
    ${owner && html`<${Fact} label="Belongs to">${owner.kind} ${owner.namespace}/${owner.name}, which changes and deletes it<//>`}
    ${link.clicks && html`<${Fact} label="All clicks">${formatNumber(link.clicks.people)} by people, ${formatNumber(link.clicks.bots)} by programs<//>`}
  </dl>`;
}

function QrCode({ link }) {
  const picture = (type, size) => `/api/links/${encodeURIComponent(link.code)}/qr.${type}?size=${size}`;
  return html`<section class="card qr">
    <h2>QR code</h2>
    <img src=${picture("svg", 256)} width="192" height="192" alt=${`QR code of ${link.short_url}`} />
    <p><a href=${picture("svg", 1024)} download=${`${link.code}.svg`}>SVG</a> <a href=${picture("png", 1024)} download=${`${link.code}.png`}>PNG</a></p>
  </section>`;
}

// The dialogs of the changes. Each passes its request to `onChange`, which returns when it has ended.

function EditDialog({ link, onChange, onClose }) {
  const submit = (form) => onChange(request("PATCH", linkPath(link.code), { body: { ...changedLabels(link, form), reason: reasonOf(form) } }));
  return html`<${FormDialog} title=${`Edit ${link.code}`} submit="Save" onSubmit=${submit} onClose=${onClose}>
    ${(problem) => html`<${Labels} link=${link} problem=${problem} /><${Reason} problem=${problem} />`}
  <//>`;
}

function DisableDialog({ link, onChange, onClose }) {
  const submit = (form) => {
    const legal = form.has("legal");
    return onChange(post(linkPath(link.code, "/disable"), { reason: reasonOf(form), legal, notice: (legal && form.get("notice")) || undefined }));
  };
  return html`<${FormDialog} title=${`Disable ${link.code}`} submit="Disable" danger onSubmit=${submit} onClose=${onClose}>
    ${(problem) => html`
      <p>Whoever follows the link gets a page that says so (410, or 451 for legal reasons).</p>
      <${Reason} problem=${problem} required />
      <${Check} label="For legal reasons" name="legal" />
      <${Field} label="Notice" hint="Shown to those who follow the link, if there are legal reasons." problem=${problem?.fields?.notice}>
        ${(attributes) => html`<input ...${attributes} name="notice" maxlength="500" autocomplete="off" />`}
      <//>
    `}
  <//>`;
}

function EnableDialog({ link, onChange, onClose }) {
  const submit = (form) => onChange(post(linkPath(link.code, "/enable"), { reason: reasonOf(form) }));
  return html`<${FormDialog} title=${`Enable ${link.code}`} submit="Enable" onSubmit=${submit} onClose=${onClose}>
    ${(problem) => html`<${Reason} problem=${problem} />`}
  <//>`;
}

function DeleteDialog({ link, onChange, onClose }) {
  const submit = (form) => onChange(request("DELETE", linkPath(link.code), { body: { reason: reasonOf(form) } }));
  return html`<${FormDialog} title=${`Delete ${link.code}`} submit="Delete" danger onSubmit=${submit} onClose=${onClose}>
    ${(problem) => html`
      <p>The destination is removed for good, and no other link gets the code. To take the link down for a time, disable it.</p>
      <${Reason} problem=${problem} />
    `}
  <//>`;
}

function Actions({ link, onOpen }) {
  const isDeleted = link.state === "deleted";
  // A ShortLink decides what its links are. It does not undo a takedown.
  const isOwn = !link.owner && !isDeleted;
  return html`<div class="actions">
    ${isOwn && html`<button type="button" onClick=${() => onOpen(EditDialog)}>Edit</button>`}
    ${!isDeleted && link.state !== "disabled" && html`<button type="button" onClick=${() => onOpen(DisableDialog)}>Disable</button>`}
    ${link.state === "disabled" && html`<button type="button" onClick=${() => onOpen(EnableDialog)}>Enable</button>`}
    ${isOwn && html`<button type="button" class="danger" onClick=${() => onOpen(DeleteDialog)}>Delete</button>`}
    <a href=${`${link.short_url}+`} target="_blank" rel="noopener noreferrer">What visitors see</a>
  </div>`;
}

export function LinkPage({ overview, address }) {
  const code = address.argument;
  const { data: link, problem, reload } = useLoad(() => get(linkPath(code)), [code]);
  const [dialog, setDialog] = useState(null);
  // False if the cache did not confirm the last change.
  const [isPurged, setPurged] = useState(true);
  // The button that opened a dialog may be gone after the change.
  useEffect(keepFocus, [link]);
  if (!link) {
    return html`<p><a href="#/links">All links</a></p><h1>${code}</h1>${problem ? html`<${Failure} problem=${problem} />` : html`<${Loading} />`}`;
  }
  const change = async (changing) => {
    const changed = await changing;
    setPurged(changed.purged !== false);
    reload();
  };
  return html`
    <p><a href="#/links">All links</a></p>
    <h1>${link.short_url} <${Copy} text=${link.short_url} /></h1>
    <${Failure} problem=${problem} />
    ${!isPurged && html`<p class="message" role="status">The cache did not confirm the change. The service repeats it within about ten seconds; until then, some visitors may see the link as it was.</p>`}
    <${Actions} link=${link} onOpen=${(Dialog) => setDialog({ Dialog })} />
    <div class="columns">
      <section class="card"><h2>Link</h2><${Facts} link=${link} /></section>
      <${QrCode} link=${link} />
    </div>
    ${overview.clicks && html`<${Clicks} code=${code} />`}
    ${dialog && html`<${dialog.Dialog} link=${link} onChange=${change} onClose=${() => setDialog(null)} />`}
  `;
}
