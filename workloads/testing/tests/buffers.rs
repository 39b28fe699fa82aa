//! Every queue of the app, of the worker and of what they share has a bound, and a queue that clients fill has one in
//! bytes: a number of items bounds little where a client chooses their size.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "everything here is a test, helpers included"
)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The beginnings of what makes a queue, or something to queue at, each with the sign that ends it.
const QUEUES: [(&str, char); 6] = [
    ("mpsc::channel(", ')'),
    ("mpsc::unbounded_channel(", ')'),
    ("broadcast::channel(", ')'),
    ("Semaphore::new(", ')'),
    ("VecDeque<", '>'),
    ("FuturesUnordered<", '>'),
];

/// The bound of a queue.
#[derive(Clone, Copy, PartialEq)]
enum Bound {
    /// A budget in bytes, which `common/src/memory.rs` lists.
    Bytes,
    /// A number of items, whose memory is listed there or set aside.
    Items,
}

/// The queues, each with its file and its bound.
const KNOWN: [(&str, &str, Bound); 12] = [
    (
        "app/src/publisher.rs",
        "mpsc::channel(WAITING)",
        Bound::Bytes,
    ),
    // Jobs that left the queue above; each keeps its share of the budget until it has a result.
    (
        "app/src/publisher/window.rs",
        "VecDeque<Sent<J, F>>",
        Bound::Items,
    ),
    // Payloads of queries; `ServeArgs::divide_memory` sets their memory aside.
    (
        "app/src/run.rs",
        "Semaphore::new(MAX_PAYLOADS)",
        Bound::Items,
    ),
    (
        "app/src/store/cache/pending_writes.rs",
        "VecDeque<(Kept, Link)>",
        Bound::Bytes,
    ),
    (
        "common/src/database/admission.rs",
        "Semaphore::new(WAITING_LOOK_UPS)",
        Bound::Items,
    ),
    (
        "common/src/database/admission.rs",
        "Semaphore::new(WAITING_CHANGES)",
        Bound::Items,
    ),
    // Only the waiters above queue here.
    (
        "common/src/database/admission.rs",
        "Semaphore::new(connections)",
        Bound::Items,
    ),
    (
        "common/src/database/admission.rs",
        "Semaphore::new(connections - reserved)",
        Bound::Items,
    ),
    // Only the task of the look-ups that wait queues here.
    (
        "common/src/database/lookups.rs",
        "Semaphore::new(AHEAD)",
        Bound::Items,
    ),
    // The look-ups among the waiters above.
    (
        "common/src/database/lookups/queue.rs",
        "VecDeque<Waiting<K, V>>",
        Bound::Items,
    ),
    (
        "common/src/logging/lines.rs",
        "VecDeque<Chunk>",
        Bound::Bytes,
    ),
    (
        "common/src/telemetry/queue.rs",
        "VecDeque<Chunk>",
        Bound::Bytes,
    ),
];

/// Returns the source files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let found = entries.flat_map(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path)
        } else {
            vec![path]
        }
    });
    found.collect()
}

/// Returns the code of a file without its comments and its tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let (code, _) = text
        .split_once("\n#[cfg(test)]\nmod tests")
        .unwrap_or((text.as_str(), ""));
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the queues that the code makes.
fn queues(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (begin, end) in QUEUES {
        for (place, _) in code.match_indices(begin) {
            let rest = &code[place..];
            found.insert(rest[..length(rest, end)].to_owned());
        }
    }
    found
}

/// Returns the length of a text up to the sign that closes its first bracket.
fn length(text: &str, end: char) -> usize {
    let begin = if end == ')' { '(' } else { '<' };
    let mut depth = 0;
    for (place, sign) in text.char_indices() {
        if sign == begin {
            depth += 1;
        } else if sign == end {
            depth -= 1;
            if depth == 0 {
                return place + 1;
            }
        }
    }
    panic!("no {end} closes {text:.80}")
}

#[test]
fn every_queue_is_bounded_and_those_of_clients_in_bytes() {
    let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeSet::new();
    for program in ["app", "common", "worker"] {
        for path in files(&workloads.join(program).join("src")) {
            let name = path.strip_prefix(&workloads).unwrap().display().to_string();
            let code = code(&path);
            for queue in queues(&code) {
                let is_it = |known: &&(&str, &str, Bound)| known.0 == name && known.1 == queue;
                let known = KNOWN.iter().find(is_it);
                let Some((_, _, bound)) = known else {
                    panic!("{name}: {queue} is not in the list: bound it in bytes first")
                };
                let has_budget = code.contains("Budget") || code.contains(".budget(");
                assert!(*bound == Bound::Items || has_budget, "{name}: {queue}");
                found.insert((name.clone(), queue));
            }
        }
    }
    assert_eq!(
        found.len(),
        KNOWN.len(),
        "the list has queues that are gone"
    );
}

#[test]
fn queues_are_found_by_what_makes_them() {
    let code =
        "let a = mpsc::channel(size(1) + 2);\nlinks: Mutex<VecDeque<(Vec<u8>, B)>>,\nx.channel(3)";
    let expected = ["VecDeque<(Vec<u8>, B)>", "mpsc::channel(size(1) + 2)"];
    assert_eq!(queues(code), BTreeSet::from(expected.map(str::to_owned)));
    assert!(queues("mpsc::unbounded_channel()").contains("mpsc::unbounded_channel()"));
}
