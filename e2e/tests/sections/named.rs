//! The sections that test files name in their doc comments, read by a parser of Rust.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result, ensure};
use syn::{Attribute, Expr, ItemFn, Lit, Macro, Meta, visit::Visit};

const MARK: &str = "Specification:";

/// Sections by the path of the module or the test that names them, such as `queue` or `queue::a_job_is_done`.
#[derive(Debug, Default)]
pub struct Named(pub BTreeMap<String, Vec<String>>);

impl Named {
    /// Reads every file below the folder of a test target.
    pub fn read_folder(&mut self, folder: &Path) -> Result<()> {
        self.read_below(folder, "")
    }

    fn read_below(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let path = entry?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let stem = stem.with_context(|| format!("{} is not UTF-8", path.display()))?;
            let module = format!("{prefix}{stem}");
            if path.is_dir() {
                self.read_below(&path, &format!("{module}::"))?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let read = self.read_file(&module, &fs::read_to_string(&path)?);
                read.with_context(|| path.display().to_string())?;
            }
        }
        Ok(())
    }

    /// Reads the source of a module.
    pub fn read_file(&mut self, module: &str, source: &str) -> Result<()> {
        let file = syn::parse_file(source)?;
        let mut reader = Reader::default();
        reader.visit_file(&file);
        let of_file = lines(&file.attrs).map(|line| (module.to_owned(), line));
        let of_tests = reader.tests.into_iter();
        let of_tests = of_tests.map(|(test, line)| (format!("{module}::{test}"), line));
        let understood: Vec<_> = of_file.chain(of_tests).collect();
        ensure!(
            understood.len() == reader.lines,
            "a line `{MARK}` belongs to neither a file nor a function: only there it is read"
        );
        for (path, line) in understood {
            let earlier = self.0.insert(path.clone(), sections(&line)?);
            ensure!(earlier.is_none(), "{path} names its sections twice");
        }
        Ok(())
    }
}

/// Collects the lines that name sections.
#[derive(Default)]
struct Reader {
    /// Names of functions with a line of each.
    tests: Vec<(String, String)>,
    /// Number of lines in the whole file.
    lines: usize,
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        let name = function.sig.ident.to_string();
        let named = lines(&function.attrs).map(|line| (name.clone(), line));
        self.tests.extend(named);
        syn::visit::visit_item_fn(self, function);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        self.lines += lines(std::slice::from_ref(attribute)).count();
    }

    // The parser does not parse the arguments of a macro, so they are searched as text.
    fn visit_macro(&mut self, invocation: &'ast Macro) {
        self.lines += invocation.tokens.to_string().matches(MARK).count();
    }
}

/// Returns the lines of doc comments that name sections, without the mark.
fn lines(attributes: &[Attribute]) -> impl Iterator<Item = String> {
    let comments = attributes.iter().filter_map(doc_comment);
    let lines = comments.flat_map(|comment| comment.lines().map(str::to_owned).collect::<Vec<_>>());
    lines.filter_map(|line| Some(line.trim().strip_prefix(MARK)?.to_owned()))
}

fn doc_comment(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(meta) = &attribute.meta else {
        return None;
    };
    match &meta.value {
        Expr::Lit(value) if meta.path.is_ident("doc") => match &value.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// Splits ` 3.1, 2.2.` into sections.
fn sections(line: &str) -> Result<Vec<String>> {
    let list = line
        .strip_prefix(' ')
        .and_then(|list| list.strip_suffix('.'));
    let list = list.with_context(|| {
        format!("expected sections as in `{MARK} 3.1, 2.2.`, got `{MARK}{line}`")
    })?;
    Ok(list.split(", ").map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &str) -> Result<Vec<(String, String)>> {
        let mut named = Named::default();
        named.read_file("queue", source)?;
        let named = named.0.into_iter();
        Ok(named
            .map(|(path, sections)| (path, sections.join(" ")))
            .collect())
    }

    fn pair(path: &str, sections: &str) -> (String, String) {
        (path.to_owned(), sections.to_owned())
    }

    #[test]
    fn files_and_functions_name_sections() {
        let source = r#"
            //! The queue.
            //!
            //! Specification: 3.2, 2.3.

            mod checks {
                /// Says more first.
                ///
                /// Specification: 7.
                #[tokio::test]
                pub(super) async fn of_a_macro(
                    gateway: &GatewayClient,
                ) {}
            }

            /// Specification: 5.
            #[test]
            // It is not asynchronous.
            fn plain() {}

            fn helper() {}
        "#;
        let expected = [
            pair("queue", "3.2 2.3"),
            pair("queue::of_a_macro", "7"),
            pair("queue::plain", "5"),
        ];
        assert_eq!(read(source).unwrap(), expected);
    }

    #[test]
    fn text_and_ordinary_comments_name_no_section() {
        let source = r##"
            // Specification: 1.
            const TEXT: &str = r#"
            /// Specification: 2.1.
            async fn in_a_string() {}
            "#;
            /* /// Specification: 2.2. */
            async fn test() {}
        "##;
        assert_eq!(read(source).unwrap(), []);
    }

    #[test]
    fn a_line_where_it_would_not_be_read_is_refused() {
        for source in [
            "/// Specification: 7.\nstruct Type;",
            "/// Specification: 7.\nmod checks {}",
            "impl Type {\n/// Specification: 7.\nfn method() {}\n}",
            "tests! {\n/// Specification: 7.\nfn test() {}\n}",
        ] {
            let error = read(source).unwrap_err().to_string();
            assert!(error.contains("neither a file nor a function"), "{error}");
        }
    }

    #[test]
    fn a_line_of_another_form_or_a_second_line_is_refused() {
        for source in [
            "//! Specification: 7",
            "//! Specification:7.",
            "//! Specification: 7.\n//! Specification: 8.",
        ] {
            assert!(read(source).is_err(), "{source}");
        }
    }
}
