//! The parsers of the bodies.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::{
    code::Code,
    destination::Destinations,
    error::Error,
    faults::Faults,
    routes::{
        admin::{links::fields::links, plain_text},
        labels,
        shorten::{MAX_LIFE, whole_microseconds},
    },
    store::management::ownership::{Owner, Policy, decision::Wish},
};

/// A link that is asked for, or the code and the invalid fields with their rules.
pub(super) type Asked = Result<Wish, (String, String)>;

/// A link that its ShortLink gives up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Release {
    pub(super) code: String,
    /// The identity of the object.
    pub(super) uid: String,
    pub(super) policy: Policy,
}

/// Parses the links that are asked for. Each is judged by itself.
///
/// # Errors
/// Returns [`Error::InvalidFields`] if there are none or too many.
pub(super) fn asked(
    body: Map<String, Value>,
    destinations: &Destinations,
    now: Timestamp,
) -> Result<Vec<Asked>, Error> {
    let links = links(body)?.into_iter();
    Ok(links.map(|link| ask(link, destinations, now)).collect())
}

/// Parses the links that are given up.
///
/// # Errors
/// Returns [`Error::InvalidFields`] if there are none or too many, or if a field of one is invalid.
pub(super) fn releases(body: Map<String, Value>) -> Result<Vec<Release>, Error> {
    links(body)?.into_iter().map(released).collect()
}

fn ask(link: Value, destinations: &Destinations, now: Timestamp) -> Asked {
    let code = link["code"].as_str().unwrap_or_default().to_owned();
    wish(Fields::of(link), destinations, now).map_err(|error| {
        let message = match error {
            Error::InvalidFields(faults) => {
                let rules = faults
                    .iter()
                    .map(|fault| format!("{} {}", fault.field, fault.reason));
                rules.collect::<Vec<_>>().join("; ")
            }
            other => other.to_string(),
        };
        (code, message)
    })
}

fn wish(mut link: Fields, destinations: &Destinations, now: Timestamp) -> Result<Wish, Error> {
    let mut faults = Faults::default();
    let code = faults.value("code", text(link.take("code")).and_then(code));
    let url = faults.value("url", text(link.take("url")));
    let title = link.take("title").map(labels::title).transpose();
    let tags = link.take("tags").map_or(Ok(Vec::new()), labels::tags);
    let enabled = link.take("enabled").unwrap_or(Value::Bool(true));
    let expires_at = link.take("expires_at").map(|end| expiry(&end, now));
    let adopts = match link.take("adopt").as_ref().map(Value::as_str) {
        None | Some(Some("Never")) => Ok(false),
        Some(Some("IfSame")) => Ok(true),
        _ => Err("must be Never or IfSame".to_owned()),
    };
    let broken_rule = destinations.check(&url).err();
    let wish = Wish {
        code,
        url,
        broken_rule: broken_rule.map(|rule| rule.to_string()),
        title: faults.value("title", title),
        tags: faults.value("tags", tags),
        enabled: faults.flag("enabled", Some(enabled)),
        expires_at: faults.value("expires_at", expires_at.transpose()),
        adopts: faults.value("adopt", adopts),
        owner: faults.value("owner", owner(link.take("owner"))),
    };
    faults.end(wish)
}

fn released(link: Value) -> Result<Release, Error> {
    let mut link = Fields::of(link);
    let mut faults = Faults::default();
    let code = text(link.take("code")).and_then(|code| plain_text(&code));
    let uid = text(link.take("uid")).and_then(|uid| plain_text(&uid));
    let policy = match link.take("policy").as_ref().and_then(Value::as_str) {
        Some("Disable") => Ok(Policy::Disable),
        Some("Delete") => Ok(Policy::Delete),
        Some("Retain") => Ok(Policy::Retain),
        _ => Err("must be Disable, Delete or Retain".to_owned()),
    };
    let release = Release {
        code: faults.value("code", code),
        uid: faults.value("uid", uid),
        policy: faults.value("policy", policy),
    };
    faults.end(release)
}

/// The fields of an object.
struct Fields(Map<String, Value>);

impl Fields {
    /// Returns the fields of a value; none if it is no object.
    fn of(value: Value) -> Self {
        match value {
            Value::Object(fields) => Self(fields),
            _ => Self(Map::new()),
        }
    }

    /// Takes a field. `null` means absent.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }
}

fn text(value: Option<Value>) -> Result<String, String> {
    match value {
        None => Err("is required".to_owned()),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err("must be a string".to_owned()),
    }
}

fn code(text: String) -> Result<String, String> {
    match Code::parse(&text) {
        Ok(_) => Ok(text),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns an expiry time. It may be over: that of a link that has expired is.
fn expiry(end: &Value, now: Timestamp) -> Result<Timestamp, String> {
    let end = end.as_str().and_then(|text| text.parse().ok());
    let end = whole_microseconds(end.ok_or("must be a time like 2030-01-31T12:00:00Z")?);
    let latest = now.checked_add(MAX_LIFE).unwrap_or(Timestamp::MAX);
    match (Timestamp::UNIX_EPOCH..=latest).contains(&end) {
        true => Ok(end),
        false => Err("must be within 5 years, and not before 1970".to_owned()),
    }
}

fn owner(value: Option<Value>) -> Result<Owner, String> {
    let mut owner = Fields::of(value.unwrap_or_default());
    let mut part = |name| {
        let part = text(owner.take(name)).and_then(|part| plain_text(&part));
        part.map_err(|_| "must have a uid, a namespace and a name".to_owned())
    };
    Ok(Owner {
        uid: part("uid")?,
        namespace: part("namespace")?,
        name: part("name")?,
    })
}
