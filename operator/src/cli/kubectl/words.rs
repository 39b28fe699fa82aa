//! Completions for kubectl, which runs `kubectl_complete-shortener` with the words after `kubectl shortener` and reads
//! one completion a line, then a directive. Pure.

use clap::{Arg, Command, ValueHint};

/// Directive after the completions: the shell adds names of files.
const FILES: &str = ":0";
/// Directive after the completions: the shell adds no names of files.
const NO_FILES: &str = ":4";

/// Returns the completions of the last word, in the form that kubectl reads.
pub fn answer(command: &Command, words: &[String]) -> String {
    let Some((last, before)) = words.split_last() else {
        return format!("{NO_FILES}\n");
    };
    let (at, argument) = place(command, before);
    let is_path = argument.is_some_and(|argument| argument.get_value_hint() == ValueHint::AnyPath);
    let directive = match is_path && !last.starts_with('-') {
        true => FILES,
        false => NO_FILES,
    };
    let mut lines = completions(at, last);
    lines.push(directive.to_owned());
    lines.join("\n") + "\n"
}

/// Returns the command that words lead to, and the argument that the next word is for.
fn place<'a>(command: &'a Command, words: &[String]) -> (&'a Command, Option<&'a Arg>) {
    let (mut at, mut given) = (command, 0);
    let mut flag: Option<&Arg> = None;
    for word in words {
        if flag.take().is_some() {
            // The word is its value.
            continue;
        }
        if word.starts_with('-') && word != "-" {
            flag = at.get_opts().find(|option| has_name(option, word));
        } else if let Some(below) = at.find_subcommand(word) {
            (at, given) = (below, 0);
        } else {
            given += 1;
        }
    }
    (at, flag.or_else(|| at.get_positionals().nth(given)))
}

fn has_name(option: &Arg, word: &str) -> bool {
    let long = option.get_long().map(|name| format!("--{name}"));
    let short = option.get_short().map(|name| format!("-{name}"));
    [long, short].into_iter().flatten().any(|name| name == word)
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
            (&["plan", "-n", ""][..], ":4\n"),
            (&["plan", "--operator-namespace", ""][..], ":4\n"),
            (&["export", "demo", "--key-file", ""][..], ":0\n"),
            (&["export", "demo", "-n", ""][..], ":4\n"),
            (&["import", ""][..], ":4\n"),
            (&["import", "demo", "links"][..], ":0\n"),
            (&["-n", "links", "import", "demo", ""][..], ":0\n"),
            (&["__"][..], ":4\n"),
            (&[][..], ":4\n"),
        ] {
            assert_eq!(complete(words), expected, "{words:?}");
        }
    }
}
