//! The lines that wait for standard output: every thread appends to one buffer, and a thread of its own writes it.
//!
//! Waking the writing thread costs the logging thread more than building the line. After each write it therefore rests for
//! a moment in which lines gather without waking it. A single line is written at once.

use std::{
    collections::VecDeque,
    io::{self, Write},
    mem,
    sync::Arc,
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::room::Room;
use crate::budget::Budget;

/// The size of a chunk in bytes, and so of the largest write that combines lines.
const CHUNK: usize = 64 * 1024;
/// The number of empty chunks that are kept: at the highest load, those of one rest and of one write.
const SPARE: usize = 4;
/// The time for which the end of the process waits for a reader of standard output.
const END: Duration = Duration::from_secs(1);

/// The lines of one log; clones share them.
#[derive(Clone)]
pub(super) struct Lines(Arc<Shared>);

struct Shared {
    waiting: Mutex<Waiting>,
    /// Wakes the writing thread: for the first line, or for the end.
    news: Condvar,
    /// Tells that everything was written.
    written: Condvar,
    room: Room,
}

#[derive(Default)]
struct Waiting {
    /// The oldest chunk first. Only the last one has room.
    chunks: VecDeque<Chunk>,
    /// The memory of chunks that were written.
    spare: Vec<Vec<u8>>,
    /// True while the writing thread waits for a line.
    idle: bool,
    /// True once nothing but the lines of now are to be written.
    ends: bool,
    /// True once they are written.
    ended: bool,
}

/// Lines that are written together.
struct Chunk {
    text: Vec<u8>,
    lines: usize,
}

impl Lines {
    /// Starts the thread that writes lines, at most once per `rest`. Lines that wait fit into this memory. Dropping the
    /// second value writes the rest and ends the thread.
    pub(super) fn start(
        writer: impl Write + Send + 'static,
        rest: Duration,
        memory: Budget,
    ) -> io::Result<(Self, Flush)> {
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            news: Condvar::new(),
            written: Condvar::new(),
            room: Room::new(memory),
        });
        let lines = Self(Arc::clone(&shared));
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || shared.run(writer, rest))?;
        Ok((lines.clone(), Flush(lines)))
    }

    /// Appends a line, or drops and counts it if there is no room. Never waits for the reader.
    pub(super) fn append(&self, line: &[u8]) {
        let shared = &*self.0;
        if !shared.room.enter(line.len()) {
            return;
        }
        let mut waiting = shared.waiting.lock();
        waiting.append(line);
        let wakes = mem::take(&mut waiting.idle);
        drop(waiting);
        if wakes {
            shared.news.notify_one();
        }
    }

    /// Returns the room of the lines.
    pub(super) fn room(&self) -> &Room {
        &self.0.room
    }
}

impl Waiting {
    fn append(&mut self, line: &[u8]) {
        let last = self.chunks.back();
        let fits = last.is_some_and(|last| last.text.len() + line.len() <= CHUNK);
        if !fits {
            let spare = self.spare.pop();
            let text = spare.unwrap_or_else(|| Vec::with_capacity(CHUNK));
            self.chunks.push_back(Chunk { text, lines: 0 });
        }
        if let Some(last) = self.chunks.back_mut() {
            last.text.extend_from_slice(line);
            last.lines += 1;
        }
    }

    /// Keeps the memory of some chunks that were written. One that held a larger line is not kept.
    fn keep(&mut self, written: &mut VecDeque<Chunk>) {
        for Chunk { mut text, .. } in written.drain(..) {
            if self.spare.len() < SPARE && text.capacity() <= CHUNK {
                text.clear();
                self.spare.push(text);
            }
        }
    }
}

impl Shared {
    /// Writes lines until the end.
    fn run(&self, mut writer: impl Write, rest: Duration) {
        let mut taken = VecDeque::new();
        let mut waiting = self.waiting.lock();
        loop {
            while waiting.chunks.is_empty() && !waiting.ends {
                waiting.idle = true;
                self.news.wait(&mut waiting);
            }
            waiting.idle = false;
            if waiting.chunks.is_empty() {
                break;
            }
            mem::swap(&mut taken, &mut waiting.chunks);
            MutexGuard::unlocked(&mut waiting, || {
                for Chunk { text, lines } in &taken {
                    // An error here has no place to be reported, because standard output is gone.
                    let _ = writer.write_all(text);
                    self.room.leave(*lines, text.len());
                }
                let _ = writer.flush();
            });
            waiting.keep(&mut taken);
            self.news
                .wait_while_for(&mut waiting, |waiting| !waiting.ends, rest);
        }
        waiting.ended = true;
        self.written.notify_all();
    }
}

/// The end of the lines: dropping it writes those that wait, if their reader takes them soon.
pub(super) struct Flush(Lines);

impl Drop for Flush {
    fn drop(&mut self) {
        let Lines(shared) = &self.0;
        let mut waiting = shared.waiting.lock();
        waiting.ends = true;
        shared.news.notify_one();
        shared
            .written
            .wait_while_for(&mut waiting, |waiting| !waiting.ended, END);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// The writing side of a pipe whose reader gets each write by itself.
    struct Pipe {
        written: mpsc::Sender<Vec<u8>>,
        /// Each write waits for one of these, until there are no more to come.
        permits: mpsc::Receiver<()>,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.permits.recv();
            self.written.send(bytes.to_owned()).unwrap();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Started {
        lines: Lines,
        flush: Flush,
        written: mpsc::Receiver<Vec<u8>>,
        permits: mpsc::Sender<()>,
    }

    /// Starts lines that take this memory, and rest for ever after a write.
    fn start(bytes: usize) -> Started {
        let (to_reader, written) = mpsc::channel();
        let (permits, awaited) = mpsc::channel();
        let pipe = Pipe {
            written: to_reader,
            permits: awaited,
        };
        let (lines, flush) = Lines::start(pipe, Duration::MAX, Budget::new(bytes)).unwrap();
        Started {
            lines,
            flush,
            written,
            permits,
        }
    }

    fn all(written: &mpsc::Receiver<Vec<u8>>) -> Vec<Vec<u8>> {
        written.try_iter().collect()
    }

    #[test]
    fn a_line_is_written_at_once_and_what_gathers_afterwards_together() {
        let Started {
            lines,
            flush,
            written,
            permits,
        } = start(1024);
        drop(permits);
        lines.append(b"a\n");
        assert_eq!(written.recv().unwrap(), b"a\n");
        for line in [b"b\n", b"c\n"] {
            lines.append(line);
        }
        drop(flush);
        assert_eq!(all(&written), [b"b\nc\n"]);
        assert!(lines.room().is_empty(), "what was written takes no room");
    }

    #[test]
    fn without_a_reader_lines_take_their_room_and_further_ones_are_dropped() {
        let Started {
            lines,
            flush,
            written,
            permits,
        } = start(10);
        for line in [b"one\n", b"two\n", b"six\n"] {
            lines.append(line);
        }
        assert_eq!(lines.room().dropped(), 1);
        drop(permits);
        drop(flush);
        assert_eq!(all(&written).concat(), b"one\ntwo\n");
        assert!(lines.room().is_empty());
    }

    #[test]
    fn no_write_is_larger_than_a_chunk_unless_one_line_is() {
        let Started {
            lines,
            flush,
            written,
            permits,
        } = start(4 * CHUNK);
        let long = vec![b'x'; CHUNK - 1];
        let longer = vec![b'y'; CHUNK + 1];
        for line in [
            &b"a"[..],
            &long[..],
            &b"b"[..],
            &b"c"[..],
            &longer[..],
            &b"d"[..],
        ] {
            lines.append(line);
        }
        drop(permits);
        drop(flush);
        let sizes: Vec<usize> = all(&written).iter().map(Vec::len).collect();
        let together = sizes.iter().sum::<usize>();
        assert_eq!(together, long.len() + longer.len() + 4);
        assert!(
            sizes
                .iter()
                .all(|size| *size <= CHUNK || *size == longer.len()),
            "{sizes:?}"
        );
    }
}
