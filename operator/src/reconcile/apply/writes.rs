//! The last write to each child, for differences that another write would not end.
//!
//! The watch may not show a write yet. A webhook may have stored other values than were sent: these are left as they are,
//! until something else changes. A program may change a child back: then the pauses between two writes grow.

use std::{collections::HashMap, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use shortener_operator_core::model::drift::FieldChange;
use tokio::time::Instant;

/// Number of writes of the same content, one soon after the other, that need no pause: people edit children too.
const FREE: u32 = 5;
/// Longest pause between two writes of the same content.
const LONGEST: Duration = Duration::from_secs(300);
/// Time without a write after which earlier ones do not count.
const CALM: Duration = Duration::from_secs(900);

/// Kind, namespace and name.
type ChildKey = (String, String, String);

/// The last write to each child.
#[derive(Default)]
pub struct Writes(Mutex<HashMap<ChildKey, LastWrite>>);

/// A write to a child.
pub struct LastWrite {
    /// Uid of the object: one that was recreated has another.
    uid: Option<String>,
    /// Hash of what was sent.
    hash: String,
    /// Resource version that the watch showed before. As long as it shows that, it lags behind the write.
    before: Option<String>,
    /// Differences that the API server left.
    left: Vec<FieldChange>,
    /// Generation of the object after the write.
    generation: Option<i64>,
    at: Instant,
    /// Number of writes with the same content before this one.
    repeated: u32,
}

/// What to do about a child that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    Write,
    /// Nothing: a write has done what it can.
    Rest,
    /// Nothing yet: others change the child back each time.
    Pause,
}

impl LastWrite {
    /// Describes a write of content with this hash that led to an object with these differences. `before` is the resource
    /// version that the watch showed.
    pub(super) fn of(
        written: &ObjectMeta,
        hash: &str,
        before: Option<String>,
        left: Vec<FieldChange>,
    ) -> Self {
        Self {
            uid: written.uid.clone(),
            hash: hash.to_owned(),
            before,
            left,
            generation: written.generation,
            at: Instant::now(),
            repeated: 0,
        }
    }

    fn is_of(&self, live: &ObjectMeta, hash: &str) -> bool {
        self.uid == live.uid && self.hash == hash
    }

    fn pause(&self) -> Duration {
        match self.repeated.checked_sub(FREE) {
            Some(more) => Duration::from_secs(1 << more.min(16)).min(LONGEST),
            None => Duration::ZERO,
        }
    }
}

impl Writes {
    /// Decides what to do about an object that differs from what has this hash.
    pub(super) fn remedy<K: kube::Resource<DynamicType = ()>>(
        &self,
        live: &ObjectMeta,
        hash: &str,
        differences: &[FieldChange],
    ) -> Remedy {
        let all = self.0.lock();
        let last = all.get(&key::<K>(live));
        let Some(last) = last.filter(|last| last.is_of(live, hash)) else {
            return Remedy::Write;
        };
        let lags = last.before.is_some() && last.before == live.resource_version;
        if lags || last.left == differences {
            Remedy::Rest
        } else if last.at.elapsed() < last.pause() {
            Remedy::Pause
        } else {
            Remedy::Write
        }
    }

    /// Keeps the last write to an object.
    pub(super) fn put<K: kube::Resource<DynamicType = ()>>(
        &self,
        written: &ObjectMeta,
        mut write: LastWrite,
    ) {
        let mut all = self.0.lock();
        let key = key::<K>(written);
        let last = all.get(&key);
        let last = last.filter(|last| last.is_of(written, &write.hash));
        if let Some(last) = last.filter(|last| last.at.elapsed() < CALM) {
            write.repeated = last.repeated.saturating_add(1);
        }
        all.insert(key, write);
    }

    /// Returns the generation that the last write to an object led to, which the watch may not show yet.
    pub(super) fn generation<K: kube::Resource<DynamicType = ()>>(&self, live: &ObjectMeta) -> i64 {
        let all = self.0.lock();
        let last = all.get(&key::<K>(live));
        last.and_then(|last| last.generation).unwrap_or_default()
    }

    /// Forgets an object that was deleted.
    pub fn forget(&self, kind: &str, namespace: &str, name: &str) {
        let key = [kind, namespace, name].map(str::to_owned).into();
        self.0.lock().remove(&key);
    }
}

fn key<K: kube::Resource<DynamicType = ()>>(meta: &ObjectMeta) -> ChildKey {
    let (namespace, name) = (meta.namespace.clone(), meta.name.clone());
    (
        K::kind(&()).into_owned(),
        namespace.unwrap_or_default(),
        name.unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};
    use shortener_operator_core::model::drift::differences;
    use tokio::time::advance;

    use super::*;

    fn meta(uid: &str, version: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some("acme".to_owned()),
            uid: Some(uid.to_owned()),
            resource_version: Some(version.to_owned()),
            ..ObjectMeta::default()
        }
    }

    fn others(value: u32) -> Vec<FieldChange> {
        let spec = |value: Value| json!({"spec": value});
        differences(&spec(value.into()), &spec(Value::from("ours")))
    }

    fn wrote(writes: &Writes, left: Vec<FieldChange>) {
        let before = Some("1".to_owned());
        let write = LastWrite::of(&meta("1", "2"), "abc", before, left);
        writes.put::<ConfigMap>(&meta("1", "2"), write);
    }

    fn remedy(writes: &Writes, live: &ObjectMeta, hash: &str, value: u32) -> Remedy {
        writes.remedy::<ConfigMap>(live, hash, &others(value))
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_lags_and_a_webhook_that_decides_cause_no_write() {
        let writes = Writes::default();
        let live = meta("1", "3");
        assert_eq!(remedy(&writes, &live, "abc", 1), Remedy::Write, "unknown");
        wrote(&writes, others(1));
        assert_eq!(remedy(&writes, &live, "abc", 1), Remedy::Rest);
        assert_eq!(remedy(&writes, &live, "abc", 2), Remedy::Write, "edited");
        assert_eq!(remedy(&writes, &live, "def", 1), Remedy::Write, "rendered");
        let recreated = meta("2", "1");
        assert_eq!(remedy(&writes, &recreated, "abc", 1), Remedy::Write);
        let stale = meta("1", "1");
        assert_eq!(remedy(&writes, &stale, "abc", 2), Remedy::Rest);
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_changes_a_child_back_is_answered_ever_more_rarely() {
        let (writes, live) = (Writes::default(), meta("1", "3"));
        let (mut seconds, mut times) = (0, Vec::new());
        while seconds < 1500 {
            if remedy(&writes, &live, "abc", 1) == Remedy::Write {
                wrote(&writes, Vec::new());
                times.push(seconds);
            }
            advance(Duration::from_secs(1)).await;
            seconds += 1;
        }
        let expected = [
            0, 1, 2, 3, 4, 5, 6, 8, 12, 20, 36, 68, 132, 260, 516, 816, 1116, 1416,
        ];
        assert_eq!(times, expected);
        advance(CALM).await;
        wrote(&writes, Vec::new());
        assert_eq!(
            remedy(&writes, &live, "abc", 1),
            Remedy::Write,
            "it was calm"
        );
    }
}
