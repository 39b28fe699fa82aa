//! The command `import`.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    thread,
};

use hyper::body::Bytes;
use tokio::{signal::ctrl_c, sync::mpsc};

use super::{
    Format, ImportArguments, TransferError,
    api::Api,
    file,
    progress::Progress,
    source::{self, Item, SourceError},
};

/// The maximum number of links in a request.
const LINKS: usize = 500;
/// The maximum size of a request in bytes, as the app takes it.
const BYTES: usize = 128 * 1024;
/// The number of batches that are read ahead.
const AHEAD: usize = 2;

/// The number of lines by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub created: usize,
    pub unchanged: usize,
    pub conflict: usize,
    pub invalid: usize,
}

impl Outcome {
    /// Returns true if the stack has every link of the file.
    pub fn is_complete(self) -> bool {
        self.conflict == 0 && self.invalid == 0
    }
}

/// A line that was refused.
struct Refusal<'a> {
    line: u64,
    code: Option<&'a str>,
    result: &'a str,
    reason: &'a str,
}

/// The place of refusals.
pub(super) enum Report<'a, W: Write> {
    Lines(&'a mut W),
    Csv(Box<csv::Writer<File>>),
}

/// Links that are sent together, and what the reader of the file refused before them.
#[derive(Default)]
struct Batch {
    refused: Vec<Item>,
    links: Vec<(u64, String)>,
    text: Vec<u8>,
}

/// Imports a file, and prints what became of the lines that were refused and a summary.
///
/// # Errors
/// [`TransferError`]
pub async fn import(
    arguments: ImportArguments,
    out: &mut impl Write,
) -> Result<Outcome, TransferError> {
    let path = &arguments.file;
    let input: Box<dyn Read + Send> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path).map_err(|error| file(path, error))?),
    };
    let mut api = arguments.access.api().await?;
    let mut report = match &arguments.report {
        None => Report::Lines(&mut *out),
        Some(path) => {
            let created = fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(path);
            let mut csv = csv::Writer::from_writer(created.map_err(|error| file(path, error))?);
            csv.write_record(["line", "code", "result", "reason"])?;
            Report::Csv(Box::new(csv))
        }
    };
    let imported = run(
        &mut api,
        input,
        arguments.format,
        arguments.dry_run,
        &mut report,
    );
    let imported = tokio::select! {
        imported = imported => imported,
        Ok(()) = ctrl_c() => Err(TransferError::Interrupted),
    };
    drop(report);
    let outcome = imported.map_err(|reason| TransferError::Unfinished {
        reason: Box::new(reason),
    })?;
    let stored = if arguments.dry_run {
        "would be created"
    } else {
        "created"
    };
    let Outcome {
        created,
        unchanged,
        conflict,
        invalid,
    } = outcome;
    writeln!(
        out,
        "{created} {stored}, {unchanged} unchanged, {conflict} conflicts, {invalid} invalid"
    )?;
    Ok(outcome)
}

/// Reads and sends batch after batch.
pub(super) async fn run<W: Write>(
    api: &mut Api,
    input: Box<dyn Read + Send>,
    format: Format,
    dry_run: bool,
    report: &mut Report<'_, W>,
) -> Result<Outcome, TransferError> {
    let (sender, mut batches) = mpsc::channel(AHEAD);
    // No task of the runtime, which would wait for a read of standard input before it ends.
    thread::spawn(move || {
        if let Err(error) = read(input, format, &sender) {
            let _ = sender.blocking_send(Err(error));
        }
    });
    let mut outcome = Outcome::default();
    let mut progress = Progress::new("imported");
    while let Some(batch) = batches.recv().await {
        let batch = batch?;
        let lines = batch.refused.len() + batch.links.len();
        send(api, batch, dry_run, &mut outcome, report).await?;
        progress.add(lines);
    }
    report.end()?;
    Ok(outcome)
}

/// Reads a file, and passes on its links in batches.
fn read(
    input: Box<dyn Read + Send>,
    format: Format,
    batches: &mpsc::Sender<Result<Batch, SourceError>>,
) -> Result<(), SourceError> {
    let mut batch = Batch::default();
    let pass_on = |batch: &mut Batch| {
        let batch = std::mem::take(batch);
        let sent = batches.blocking_send(Ok(batch));
        sent.map_err(|_| SourceError::Stopped)
    };
    source::read(input, format, &mut |item| {
        let more = match &item {
            Item::Link { json, .. } => json.len() + 1,
            Item::Refused { .. } => 0,
        };
        let is_full = batch.links.len() + batch.refused.len() >= LINKS;
        if is_full || batch.text.len() + more > BYTES {
            pass_on(&mut batch)?;
        }
        match item {
            Item::Link { line, code, json } => {
                batch.links.push((line, code));
                batch.text.extend_from_slice(json.as_bytes());
                batch.text.push(b'\n');
            }
            refused => batch.refused.push(refused),
        }
        Ok(())
    })?;
    pass_on(&mut batch)
}

/// Sends a batch, and reports what was refused.
async fn send<W: Write>(
    api: &mut Api,
    batch: Batch,
    dry_run: bool,
    outcome: &mut Outcome,
    report: &mut Report<'_, W>,
) -> Result<(), TransferError> {
    for item in &batch.refused {
        if let Item::Refused { line, code, reason } = item {
            outcome.invalid += 1;
            report.add(&Refusal {
                line: *line,
                code: code.as_deref(),
                result: "invalid",
                reason,
            })?;
        }
    }
    if batch.links.is_empty() {
        return Ok(());
    }
    let results = api.import(Bytes::from(batch.text), dry_run).await?;
    if results.len() != batch.links.len() {
        let counts = format!("{} results for {} lines", results.len(), batch.links.len());
        return Err(TransferError::Answer(counts));
    }
    for ((line, code), result) in batch.links.iter().zip(&results) {
        match result.result.as_str() {
            "created" => outcome.created += 1,
            "unchanged" => outcome.unchanged += 1,
            word => {
                match word {
                    "conflict" => outcome.conflict += 1,
                    _ => outcome.invalid += 1,
                }
                report.add(&Refusal {
                    line: *line,
                    code: Some(result.code.as_deref().unwrap_or(code)),
                    result: word,
                    reason: &result.sentence(),
                })?;
            }
        }
    }
    Ok(())
}

impl<W: Write> Report<'_, W> {
    fn add(&mut self, refusal: &Refusal<'_>) -> Result<(), TransferError> {
        let line = refusal.line.to_string();
        // The file chose the code, so it must not reach a terminal unchanged.
        let code = refusal.code.unwrap_or_default().escape_debug().to_string();
        match self {
            Self::Lines(out) => {
                let Refusal { result, reason, .. } = refusal;
                let code = if code.is_empty() { "-" } else { &code };
                writeln!(out, "line {line}: {code}: {result}: {reason}")?;
            }
            Self::Csv(csv) => {
                csv.write_record([line.as_str(), &code, refusal.result, refusal.reason])?;
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), TransferError> {
        match self {
            Self::Lines(_) => Ok(()),
            Self::Csv(csv) => csv.flush().map_err(Into::into),
        }
    }
}
