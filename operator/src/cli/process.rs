//! What the programs of this crate share: their exit codes, their runtime, and the command `crd`.

use std::{
    error::Error,
    io::{self, ErrorKind, StdoutLock, Write},
    process::{self, ExitCode},
};

use shortener_operator_core::definition;
use tokio::runtime::{Builder, Runtime};

use super::CrdFormat;

/// The exit code of a process that the signal of a closed pipe ends.
const CLOSED_PIPE: i32 = 141;

/// Standard output. When its reader is gone, as behind `| head`, the process ends and says nothing.
pub struct Output(StdoutLock<'static>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(end_if_closed)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(end_if_closed)
    }
}

/// Returns the standard output of a command.
pub fn output() -> Output {
    Output(io::stdout().lock())
}

fn end_if_closed(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::BrokenPipe {
        process::exit(CLOSED_PIPE);
    }
    error
}

/// Prints the error of a command, and returns the exit code of the process.
pub fn exit_code(result: Result<(), Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A failed write to stderr cannot be reported anywhere.
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints what is wrong with the command line, or the help that it asks for. The exit code of an error is not clap's 2,
/// which is an answer of `plan`.
pub fn explain(error: &clap::Error) -> ExitCode {
    // A failed write cannot be reported anywhere.
    let _ = error.print();
    if error.use_stderr() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Prints the CustomResourceDefinitions.
///
/// # Errors
/// It cannot be formatted or written.
pub fn print_crd(format: CrdFormat, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let text = match format {
        CrdFormat::Yaml => {
            let definitions = definition::yaml()?.into_iter();
            definitions
                .map(|(_, text)| format!("---\n{text}"))
                .collect()
        }
        CrdFormat::Markdown => definition::markdown(),
    };
    out.write_all(text.as_bytes())?;
    Ok(())
}

/// Returns the runtime of a process, after its choice of a TLS provider.
///
/// # Errors
/// The system refuses a thread.
pub fn runtime() -> io::Result<Runtime> {
    // With two TLS providers in one build the first connection would panic unless one is chosen here.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Builder::new_multi_thread().enable_all().build()
}
