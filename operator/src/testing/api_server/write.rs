//! The mutating verbs of the API server.

use http::StatusCode;
use serde_json::{Value, json};

use super::{
    faults::Effect,
    fields::{self, Writer},
    route::{Key, Query, Route},
    store::Store,
};

/// A refusal of a request.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) code: u16,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(code: u16, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    pub(super) fn status(&self) -> Value {
        let reason = match self.code {
            403 => "Forbidden",
            404 => "NotFound",
            409 if self.message.contains("already exists") => "AlreadyExists",
            409 => "Conflict",
            410 => "Expired",
            422 => "Invalid",
            429 => "TooManyRequests",
            504 => "Timeout",
            _ => "InternalError",
        };
        json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "code": self.code, "reason": reason, "message": self.message,
        })
    }
}

/// The response to a write: status, object and effect.
pub(super) type WriteResponse = (StatusCode, Value, Effect);

/// A mutating request.
pub(super) struct WriteRequest<'a> {
    pub(super) method: &'a str,
    pub(super) content_type: &'a str,
    pub(super) route: &'a Route,
    pub(super) query: &'a Query,
    pub(super) body: Value,
}

/// Carries out a mutating request.
pub(super) fn write(store: &mut Store, change: WriteRequest<'_>) -> Result<WriteResponse, Refusal> {
    let WriteRequest {
        method,
        content_type,
        route,
        query,
        body,
    } = change;
    let name = route
        .name
        .as_deref()
        .or_else(|| body["metadata"]["name"].as_str());
    let key = route.key(name.ok_or_else(|| Refusal::new(422, "metadata.name is required"))?);
    let manager = query.get("fieldManager").unwrap_or("unknown");
    let writer = Writer {
        manager,
        operation: "Update",
        subresource: route.subresource.as_deref(),
    };
    match (method, content_type) {
        ("POST", _) => create(store, &key, body, writer),
        ("PUT", _) => replace(store, &key, body, writer),
        ("DELETE", _) => delete(store, &key, &body),
        ("PATCH", "application/merge-patch+json") => merge(store, &key, body, writer),
        ("PATCH", "application/apply-patch+yaml") => apply(
            store,
            &key,
            body,
            Writer {
                operation: "Apply",
                ..writer
            },
            query.is_true("force"),
        ),
        _ => Err(Refusal::new(
            415,
            format!("{method} with `{content_type}` is not supported here"),
        )),
    }
}

fn create(
    store: &mut Store,
    key: &Key,
    mut body: Value,
    writer: Writer<'_>,
) -> Result<WriteResponse, Refusal> {
    if store.objects.contains_key(key) {
        return Err(Refusal::new(
            409,
            format!("{} \"{}\" already exists", key.collection.plural, key.name),
        ));
    }
    if body["metadata"]["resourceVersion"].is_string() {
        return Err(Refusal::new(
            500,
            "resourceVersion should not be set on objects to be created",
        ));
    }
    without_status(&mut body, None);
    fields::update(&Value::Null, &mut body, writer);
    Ok((StatusCode::CREATED, store.put(key, body).0, Effect::Created))
}

fn replace(
    store: &mut Store,
    key: &Key,
    mut body: Value,
    writer: Writer<'_>,
) -> Result<WriteResponse, Refusal> {
    let live = live(store, key)?;
    same_object(&live, &body)?;
    if writer.subresource.is_some() {
        let status = body["status"].take();
        body = live.clone();
        body["status"] = status;
    } else {
        without_status(&mut body, Some(&live));
    }
    fields::update(&live, &mut body, writer);
    Ok(put(store, key, body))
}

fn merge(
    store: &mut Store,
    key: &Key,
    patch: Value,
    writer: Writer<'_>,
) -> Result<WriteResponse, Refusal> {
    let live = live(store, key)?;
    same_object(&live, &patch)?;
    let mut wanted = live.clone();
    if writer.subresource.is_some() {
        merge_into(&mut wanted["status"], &patch["status"]);
    } else {
        merge_into(&mut wanted, &patch);
        without_status(&mut wanted, Some(&live));
    }
    fields::update(&live, &mut wanted, writer);
    Ok(put(store, key, wanted))
}

fn apply(
    store: &mut Store,
    key: &Key,
    body: Value,
    writer: Writer<'_>,
    force: bool,
) -> Result<WriteResponse, Refusal> {
    if !body["metadata"]["managedFields"].is_null() {
        return Err(Refusal::new(400, "metadata.managedFields must be nil"));
    }
    let existing = store.objects.get(key).cloned();
    if existing.is_none() && (writer.subresource.is_some() || body["metadata"]["uid"].is_string()) {
        let code = if writer.subresource.is_some() {
            404
        } else {
            409
        };
        return Err(Refusal::new(
            code,
            format!("{} \"{}\" not found", key.collection.plural, key.name),
        ));
    }
    let mut object = existing
        .clone()
        .unwrap_or_else(|| json!({"apiVersion": body["apiVersion"], "kind": body["kind"]}));
    same_object(&object, &body)?;
    keeps_finalizers(&object, &body)?;
    let wanted = match writer.subresource {
        Some(_) => json!({"status": body["status"]}),
        None => {
            let mut wanted = body;
            without_status(&mut wanted, None);
            wanted
        }
    };
    fields::apply(&mut object, &wanted, writer, force).map_err(|owners| {
        Refusal::new(409, format!("Apply failed with conflicts with {owners:?}"))
    })?;
    match existing {
        Some(_) => Ok(put(store, key, object)),
        None => Ok((
            StatusCode::CREATED,
            store.put(key, object).0,
            Effect::Created,
        )),
    }
}

fn delete(store: &mut Store, key: &Key, options: &Value) -> Result<WriteResponse, Refusal> {
    same_object(
        &live(store, key)?,
        &json!({"metadata": options["preconditions"]}),
    )?;
    let object = store.delete(key).unwrap_or_default();
    Ok((StatusCode::OK, object, Effect::Deleted))
}

fn live(store: &Store, key: &Key) -> Result<Value, Refusal> {
    let missing = || {
        Refusal::new(
            404,
            format!("{} \"{}\" not found", key.collection.plural, key.name),
        )
    };
    store.objects.get(key).cloned().ok_or_else(missing)
}

fn put(store: &mut Store, key: &Key, object: Value) -> WriteResponse {
    let finished = object["metadata"]["deletionTimestamp"].is_string()
        && object["metadata"]["finalizers"]
            .as_array()
            .is_none_or(Vec::is_empty);
    let (object, changed) = store.put(key, object);
    if finished {
        store.delete(key);
        return (StatusCode::OK, object, Effect::Deleted);
    }
    (
        StatusCode::OK,
        object,
        if changed {
            Effect::Changed
        } else {
            Effect::Unchanged
        },
    )
}

/// Checks that the live object has the uid and the resource version that a request names.
fn same_object(live: &Value, wanted: &Value) -> Result<(), Refusal> {
    for field in ["uid", "resourceVersion"] {
        let (live, wanted) = (&live["metadata"][field], &wanted["metadata"][field]);
        if wanted.is_string() && wanted != live {
            return Err(Refusal::new(
                409,
                format!("the object has been modified: {field} is {live}, not {wanted}"),
            ));
        }
    }
    Ok(())
}

/// Refuses new finalizers of an object that is being deleted.
fn keeps_finalizers(live: &Value, wanted: &Value) -> Result<(), Refusal> {
    let of = |object: &Value| {
        object["metadata"]["finalizers"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    let is_new = of(wanted)
        .iter()
        .any(|finalizer| !of(live).contains(finalizer));
    if is_new && live["metadata"]["deletionTimestamp"].is_string() {
        return Err(Refusal::new(
            422,
            "no new finalizers can be added if the object is being deleted",
        ));
    }
    Ok(())
}

/// Replaces the status with that of the live object, or removes it if there is none: only the status subresource may
/// write it.
fn without_status(object: &mut Value, live: Option<&Value>) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    fields.remove("status");
    if let Some(status) = live.and_then(|live| live.get("status")) {
        fields.insert("status".to_owned(), status.clone());
    }
}

/// Applies a JSON merge patch (RFC 7396).
fn merge_into(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge_into(&mut target[key], value);
        }
    }
}
