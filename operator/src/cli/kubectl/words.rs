//! Completions for kubectl, which runs `kubectl_complete-shortener` with the words after `kubectl shortener` and reads
//! one completion a line, then a directive. Pure.

use clap::{Command, ValueHint};

/// Directive after the completions: the shell adds names of files.
const FILES: &str = ":0";
/// Directive after the completions: the shell adds no names of files.
const NO_FILES: &str = ":4";

/// Returns the completions of the last word, in the form that kubectl reads.
pub fn answer(command: &Command, words: &[String]) -> String {
    let Some((last, before)) = words.split_last() else {
        return format!("{NO_FILES}\n");
    };
    let at = before
        .iter()
        .fold(command, |at, word| at.find_subcommand(word).unwrap_or(at));
    let mut arguments = at.get_arguments();
    let takes_files = arguments.any(|argument| argument.get_value_hint() == ValueHint::AnyPath);
    let directive = match takes_files && !last.starts_with('-') {
        true => FILES,
        false => NO_FILES,
    };
    let mut lines = completions(at, last);
    lines.push(directive.to_owned());
    lines.join("\n") + "\n"
}

fn completions(at: &Command, last: &str) -> Vec<String> {
    let names = at
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(|command| command.get_name().to_owned());
    let values = at
        .get_positionals()
        .flat_map(|argument| argument.get_possible_values())
        .map(|value| value.get_name().to_owned());
    let flags = at
        .get_arguments()
        .filter_map(|argument| argument.get_long())
        // Flags are offered on request, as kubectl does.
        .filter(|_| last.starts_with('-'))
        .map(|name| format!("--{name}"));
    let all = names.chain(values).chain(flags);
    all.filter(|word| word.starts_with(last)).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::kubectl::Plugin;

    fn complete(words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        answer(&Plugin::command(), &words)
    }

    #[test]
    fn the_last_word_is_completed_where_the_words_before_lead() {
        for (words, expected) in [
            (&["st"][..], "status\n:4\n"),
            (&["dlq", "d"][..], "drop\n:4\n"),
            (&["dlq", "replay", "--a"][..], "--all\n:4\n"),
            (&["status", "--all"][..], "--all-namespaces\n:4\n"),
            (&["completion", "ba"][..], "bash\n:4\n"),
            (&["status", "dem"][..], ":4\n"),
            (&["plan", "-f", ""][..], ":0\n"),
            (&["plan", "--fi"][..], "--file\n:4\n"),
            (&["import", "demo", "links"][..], ":0\n"),
            (&["__"][..], ":4\n"),
            (&[][..], ":4\n"),
        ] {
            assert_eq!(complete(words), expected, "{words:?}");
        }
    }
}
