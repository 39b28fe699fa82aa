//! A writer that combines lines that arrive close together.

use std::{
    io::{self, BufWriter, Write},
    thread,
    time::Duration,
};

use super::room::Room;

/// The size of the buffer in bytes, and so of the largest combined write.
const AT_ONCE: usize = 64 * 1024;

/// A buffered writer that sleeps after each flush, on a thread of its own.
///
/// Waking the writing thread costs the logging thread more than rendering the line. While the writing thread
/// sleeps, lines accumulate without waking it. A single line is written at once.
pub(super) struct Batches<W: Write> {
    buffer: BufWriter<W>,
    rest: Duration,
    room: Room,
}

impl<W: Write> Batches<W> {
    /// Returns a writer that flushes at most once per `rest`, except when the buffer is full. Each line that is written
    /// leaves the room.
    pub(super) fn new(writer: W, rest: Duration, room: Room) -> Self {
        Self {
            buffer: BufWriter::with_capacity(AT_ONCE, writer),
            rest,
            room,
        }
    }
}

impl<W: Write> Write for Batches<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.write(bytes)
    }

    /// Writes one line.
    fn write_all(&mut self, line: &[u8]) -> io::Result<()> {
        let written = self.buffer.write_all(line);
        self.room.leave(line.len());
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        let writes = !self.buffer.buffer().is_empty();
        self.buffer.flush()?;
        if writes {
            thread::sleep(self.rest);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::budget::Budget;

    fn room() -> Room {
        Room::new(Budget::new(1024))
    }

    /// Records each write and its time.
    #[derive(Default)]
    struct Written(Vec<(Instant, Vec<u8>)>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push((Instant::now(), bytes.to_owned()));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_gathered_is_written_at_once_and_before_the_rest() {
        let rest = Duration::from_millis(20);
        let room = room();
        let mut batches = Batches::new(Written::default(), rest, room.clone());
        for line in [b"a\n", b"b\n"] {
            assert!(room.enter(line.len()));
            batches.write_all(line).unwrap();
        }
        assert!(room.is_empty(), "what was written takes no room");
        batches.flush().unwrap();
        let [(when, bytes)] = &batches.buffer.get_ref().0[..] else {
            panic!("the batch was written in parts")
        };
        assert_eq!(bytes, b"a\nb\n");
        assert!(when.elapsed() >= rest);
    }

    #[test]
    fn without_a_line_there_is_no_rest() {
        let mut batches = Batches::new(Written::default(), Duration::MAX, room());
        batches.flush().unwrap();
        assert!(batches.buffer.get_ref().0.is_empty());
    }
}
