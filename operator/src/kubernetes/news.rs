//! Changes that matter: a kind may have a part that changes often and on which no stack depends.

use std::collections::HashMap;

use kube::{Resource, runtime::reflector::ObjectRef};

use super::digest::Digest;

/// The essence of each object, as last seen by the watch.
pub struct News<K: Resource<DynamicType = ()>> {
    essence: fn(&K) -> Option<String>,
    /// The digest of the essence of each object.
    known: HashMap<ObjectRef<K>, Digest>,
}

impl<K: Resource<DynamicType = ()>> News<K> {
    /// Creates the memory for a form's function of the same name.
    pub fn new(essence: fn(&K) -> Option<String>) -> Self {
        Self {
            essence,
            known: HashMap::new(),
        }
    }

    /// Remembers an object. Returns true if its essence differs from the one before, or if every change counts.
    pub fn see(&mut self, object: &K) -> bool {
        let Some(essence) = (self.essence)(object) else {
            return true;
        };
        let essence = Digest::of(&[&essence]);
        let before = self.known.insert(ObjectRef::from_obj(object), essence);
        before != Some(essence)
    }

    /// Forgets an object that is gone.
    pub fn forget(&mut self, object: &K) {
        self.known.remove(&ObjectRef::from_obj(object));
    }

    /// Forgets the objects that do not exist any more, and returns them. A new list has no event for an object that was
    /// deleted while the watch was interrupted.
    pub fn forget_gone(&mut self, exists: impl Fn(&ObjectRef<K>) -> bool) -> Vec<ObjectRef<K>> {
        let gone: Vec<ObjectRef<K>> = self
            .known
            .keys()
            .filter(|known| !exists(known))
            .cloned()
            .collect();
        for object in &gone {
            self.known.remove(object);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_news_when_it_is_new_or_differs_in_its_essence_or_was_gone() {
        let object = |name: &str, key: &str| -> ConfigMap {
            serde_json::from_value(json!({"metadata": {"name": name}, "data": {key: ""}})).unwrap()
        };
        let mut news = News::new(|map: &ConfigMap| {
            let data = map.data.as_ref()?;
            data.keys().next().cloned()
        });
        assert!(news.see(&object("a", "x")));
        assert!(!news.see(&object("a", "x")));
        assert!(news.see(&object("b", "x")));
        assert!(news.see(&object("a", "y")));
        news.forget(&object("a", "y"));
        assert!(news.see(&object("a", "y")));
        let mut all = News::new(|_: &ConfigMap| None);
        assert!(all.see(&object("a", "x")) && all.see(&object("a", "x")));
    }
    #[test]
    fn objects_that_a_new_list_lacks_are_forgotten_once() {
        let object = |name: &str| -> ConfigMap {
            serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
        };
        let mut news = News::new(|_: &ConfigMap| Some(String::new()));
        news.see(&object("a"));
        news.see(&object("b"));
        let gone = news.forget_gone(|known| known.name == "a");
        let names: Vec<&str> = gone.iter().map(|gone| gone.name.as_str()).collect();
        assert_eq!(names, ["b"]);
        assert!(news.forget_gone(|known| known.name == "a").is_empty());
    }
}
