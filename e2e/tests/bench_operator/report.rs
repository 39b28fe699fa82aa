//! The table of what was measured, beside the aims.

use std::time::Duration;

/// One measured value.
struct Row {
    what: String,
    value: f64,
    unit: &'static str,
    aim: Option<f64>,
    remark: String,
}

/// The rows so far, and the memory of each step.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
    curves: Vec<String>,
}

impl Report {
    /// Adds a value without an aim.
    pub(crate) fn add(&mut self, what: &str, value: f64, unit: &'static str, remark: &str) {
        self.push(Row::new(what, value, unit, remark));
    }

    /// Adds a time in seconds.
    pub(crate) fn add_time(&mut self, what: &str, time: Duration, remark: &str) {
        self.push(Row::new(what, time.as_secs_f64(), "s", remark));
    }

    /// Adds a time in milliseconds, which is to stay below an aim.
    pub(crate) fn add_latency(&mut self, what: &str, time: Duration, aim: f64, remark: &str) {
        let row = Row::new(what, time.as_secs_f64() * 1e3, "ms", remark);
        self.push(row.aim(aim));
    }

    /// Adds a number of bytes, which is to stay below an aim in MB.
    pub(crate) fn add_memory(&mut self, what: &str, bytes: u64, aim: f64, remark: &str) {
        let row = Row::new(what, bytes as f64 / 1e6, "MB", remark);
        self.push(row.aim(aim));
    }

    /// Adds the memory during a step.
    pub(crate) fn add_curve(&mut self, what: &str, bytes: impl Iterator<Item = u64>) {
        let readings: Vec<_> = bytes
            .map(|bytes| format!("{:.1}", bytes as f64 / 1e6))
            .collect();
        self.curves.push(format!("{what}: {}", readings.join(" ")));
    }

    fn push(&mut self, row: Row) {
        println!("    {}", row.line());
        self.rows.push(row);
    }

    /// Prints everything again, as the end of the output.
    pub(crate) fn print(&self) {
        println!("\nmemory of the operator in MB, a reading every 10 s");
        for curve in &self.curves {
            println!("  {curve}");
        }
        println!();
        for row in &self.rows {
            println!("{}", row.line());
        }
    }
}

impl Row {
    fn new(what: &str, value: f64, unit: &'static str, remark: &str) -> Self {
        Self {
            what: what.to_owned(),
            value,
            unit,
            aim: None,
            remark: remark.to_owned(),
        }
    }

    fn aim(self, aim: f64) -> Self {
        Self {
            aim: Some(aim),
            ..self
        }
    }

    fn line(&self) -> String {
        let Self {
            what,
            value,
            unit,
            aim,
            remark,
        } = self;
        let aim = match aim {
            Some(aim) if value < aim => format!("aim {aim}: met"),
            Some(aim) => format!("aim {aim}: MISSED"),
            None => String::new(),
        };
        format!("{what:<56} {value:>10.1} {unit:<9} {aim:<15} {remark}")
            .trim_end()
            .to_owned()
    }
}
