//! All collections, one folder each. A folder is renamed into place once it is complete, and renamed away before it
//! is deleted, so that a process that dies in between leaves no half-written collection.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::RwLock;

use crate::{collection::Collection, error::Error, model::VectorParams};

/// Characters that the real server refuses in a name; `.` and `..` are refused too, because they cannot name a file.
const FORBIDDEN: [char; 11] = ['<', '>', ':', '"', '/', '\\', '|', '?', '*', '\0', '\u{1F}'];

/// The collections.
pub struct Store {
    complete: PathBuf,
    unfinished: PathBuf,
    collections: RwLock<BTreeMap<String, Arc<Collection>>>,
}

impl Store {
    /// Opens the store at `path`, and creates it if necessary.
    ///
    /// # Errors
    /// Fails if a file cannot be read or written.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let store = Self {
            complete: path.join("collections"),
            unfinished: path.join("unfinished"),
            collections: RwLock::default(),
        };
        fs::create_dir_all(&store.complete)?;
        store.remove_unfinished()?;
        for entry in fs::read_dir(&store.complete)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let collection = Arc::new(Collection::load(&name, &entry.path())?);
            store.collections.write().insert(name, collection);
        }
        Ok(store)
    }

    /// Creates a collection.
    ///
    /// # Errors
    /// [`Error::CollectionExists`], [`Error::Invalid`] for an invalid name, or an error of writing its files.
    pub fn create(&self, name: &str, vectors: VectorParams) -> Result<(), Error> {
        validate_name(name)?;
        let mut collections = self.collections.write();
        if collections.contains_key(name) {
            return Err(Error::CollectionExists(name.to_owned()));
        }
        self.remove_unfinished()?;
        fs::create_dir_all(&self.unfinished)?;
        Collection::create(&self.unfinished, vectors)?;
        let path = self.complete.join(name);
        fs::rename(&self.unfinished, &path)?;
        collections.insert(name.to_owned(), Arc::new(Collection::load(name, &path)?));
        Ok(())
    }

    /// Deletes a collection; returns false if it does not exist.
    ///
    /// # Errors
    /// An error of removing its files.
    pub fn delete(&self, name: &str) -> Result<bool, Error> {
        let mut collections = self.collections.write();
        let Some(collection) = collections.remove(name) else {
            return Ok(false);
        };
        collection.close();
        self.remove_unfinished()?;
        fs::rename(self.complete.join(name), &self.unfinished)?;
        self.remove_unfinished()?;
        Ok(true)
    }

    /// Returns a collection.
    ///
    /// # Errors
    /// [`Error::NoCollection`] if it does not exist.
    pub fn collection(&self, name: &str) -> Result<Arc<Collection>, Error> {
        let found = self.collections.read().get(name).cloned();
        found.ok_or_else(|| Error::NoCollection(name.to_owned()))
    }

    /// Returns the names of all collections in alphabetical order.
    pub fn names(&self) -> Vec<String> {
        self.collections.read().keys().cloned().collect()
    }

    /// Closes all files; later requests find no collection.
    pub fn close(&self) {
        for collection in std::mem::take(&mut *self.collections.write()).into_values() {
            collection.close();
        }
    }

    fn remove_unfinished(&self) -> Result<(), Error> {
        match fs::remove_dir_all(&self.unfinished) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

fn validate_name(name: &str) -> Result<(), Error> {
    let reason = if name.is_empty() || name.len() > 255 {
        "must have from 1 to 255 characters".to_owned()
    } else if name == "." || name == ".." {
        "is no name of a folder".to_owned()
    } else if let Some(character) = FORBIDDEN
        .into_iter()
        .find(|character| name.contains(*character))
    {
        format!("cannot contain {character:?}")
    } else {
        return Ok(());
    };
    Err(Error::Invalid(format!(
        "collection_name: value {name:?} invalid, {reason}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_leaves_the_folder_is_refused() {
        for name in ["", ".", "..", "a/b", "a\\b", "a:b", "a\0b"] {
            assert!(
                matches!(validate_name(name), Err(Error::Invalid(_))),
                "{name:?}"
            );
        }
        assert_eq!(validate_name("docs.v2-a_b"), Ok(()));
    }
}
