//! The tasks that can be enqueued without a key.

use std::collections::BTreeSet;

/// Stands for every task except those of [`RESERVED`].
const EVERY_OTHER: &str = "*";
/// The tasks that have to be named: each costs the service far more than its sender, or takes data away.
pub const RESERVED: [&str; 3] = ["purge_expired", "reindex", "wait"];
/// The maximum length of a name in bytes.
const MAX_NAME: usize = 64;

/// The tasks that can be enqueued without a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicTasks(BTreeSet<String>);

impl Default for PublicTasks {
    fn default() -> Self {
        Self(BTreeSet::from([EVERY_OTHER.to_owned()]))
    }
}

impl PublicTasks {
    /// Parses names that are separated by commas. An empty text is a list without names.
    ///
    /// # Errors
    /// Fails if a name has another form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let names = text.split(',').map(str::trim);
        let names: BTreeSet<String> = names
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        match names.iter().find(|name| !is_name(name)) {
            Some(name) => Err(format!(
                "{name} is not the name of a task: write `*`, or 1 to {MAX_NAME} of the characters A-Z, a-z, 0-9, \
                 '_', '.', ':' and '-'"
            )),
            None => Ok(Self(names)),
        }
    }

    /// Returns true if the task of this name needs no key. The name is empty for a job without a task.
    pub fn contains(&self, task: &str) -> bool {
        let is_covered = self.0.contains(EVERY_OTHER) && !RESERVED.contains(&task);
        is_covered || self.0.contains(task)
    }
}

fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
    text == EVERY_OTHER || text.len() <= MAX_NAME && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_every_task_but_those_that_have_to_be_named() {
        let table: [(&str, &[&str], &[&str]); 4] = [
            (
                "*",
                &["", "email", "index", "Wait"],
                &["wait", "reindex", "purge_expired"],
            ),
            ("*,wait", &["", "email", "wait"], &["reindex"]),
            ("wait, email", &["wait", "email"], &["", "*", "index"]),
            ("", &[], &["", "*", "email", "wait"]),
        ];
        for (list, public, others) in table {
            let tasks = PublicTasks::parse(list).unwrap();
            for task in public {
                assert!(tasks.contains(task), "{list}: {task}");
            }
            for task in others {
                assert!(!tasks.contains(task), "{list}: {task}");
            }
        }
        assert_eq!(PublicTasks::parse("*").unwrap(), PublicTasks::default());
    }

    #[test]
    fn a_name_of_another_form_is_refused() {
        let long = "x".repeat(65);
        for wrong in ["a b", "**", "a*", "ä", "a;b", long.as_str()] {
            let refusal = PublicTasks::parse(&format!("email,{wrong}")).unwrap_err();
            assert!(refusal.starts_with(wrong), "{refusal}");
        }
        assert!(PublicTasks::parse(&long[1..]).is_ok());
        assert!(PublicTasks::parse("a.b:c-d_E9").is_ok());
    }
}
