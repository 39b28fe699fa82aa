//! The form of the kept inputs: one file for each target, one line for each input. Printable ASCII stands for itself,
//! every other byte is `\x` with two hex digits, and a backslash is two.

/// Returns the line of an input.
pub fn line(input: &[u8]) -> String {
    let mut line = String::new();
    for (place, &byte) in input.iter().enumerate() {
        match byte {
            b'\\' => line.push_str(r"\\"),
            // Some editors remove a space at the end of a line.
            b' ' if place + 1 == input.len() => line.push_str(r"\x20"),
            b' '..=b'~' => line.push(char::from(byte)),
            _ => line.push_str(&format!(r"\x{byte:02x}")),
        }
    }
    line
}

/// Returns the input of a line; nothing if the line does not have the form.
pub fn input(line: &str) -> Option<Vec<u8>> {
    let mut input = Vec::new();
    let mut rest = line.bytes();
    while let Some(byte) = rest.next() {
        input.push(match byte {
            b'\\' => match rest.next()? {
                b'\\' => b'\\',
                b'x' => hex(rest.next()?)? * 16 + hex(rest.next()?)?,
                _ => return None,
            },
            b' '..=b'~' => byte,
            _ => return None,
        });
    }
    Some(input)
}

fn hex(digit: u8) -> Option<u8> {
    u8::try_from(char::from(digit).to_digit(16)?).ok()
}
