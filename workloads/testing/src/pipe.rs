//! A writer that hands on what is written to it.

use std::{
    io::{self, Write},
    sync::mpsc,
};

/// Sends each write through a channel, whose other end must be there.
pub struct Pipe(pub mpsc::Sender<Vec<u8>>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes.to_owned()).unwrap();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
