//! The modules of every crate of the workspace depend on each other in one direction: there is no cycle among the
//! children of any module, at the top level or below. A parent and its children may name each other, and what only
//! tests name does not count.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "everything here is a test, helpers included"
)]

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The path of a module from the root of its crate, or of an item.
type Names = Vec<String>;

/// A file and the path in it that makes one module depend on another.
type Reason = (PathBuf, String);

/// The children of one module: for each its siblings that it names, with a reason.
type Siblings = BTreeMap<String, BTreeMap<String, Reason>>;

/// The modules of a crate, each with its file and the paths that it names.
#[derive(Default)]
struct Modules(BTreeMap<Names, (PathBuf, Vec<Names>)>);

impl Modules {
    /// Reads the root and every module that it declares; the function returns the file of a module and its content.
    fn read(load: &dyn Fn(&[String]) -> (PathBuf, String)) -> Self {
        let mut modules = Self::default();
        modules.add_file(Names::new(), load);
        modules
    }

    fn add_file(&mut self, module: Names, load: &dyn Fn(&[String]) -> (PathBuf, String)) {
        let (file, content) = load(&module);
        let tokens: TokenStream = content
            .parse()
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut children = Vec::new();
        self.scan(&module, &file, tokens, &mut children);
        for child in children {
            self.add_file(child, load);
        }
    }

    /// Records the paths in these tokens, and returns the modules that have files of their own in `children`.
    fn scan(
        &mut self,
        module: &Names,
        file: &Path,
        tokens: TokenStream,
        children: &mut Vec<Names>,
    ) {
        self.0
            .entry(module.clone())
            .or_insert_with(|| (file.to_owned(), Vec::new()));
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut rest = tokens.as_slice();
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            match (word(first).as_deref(), first) {
                (_, TokenTree::Punct(sign)) if sign.as_char() == '#' && is_for_tests(after) => {
                    rest = &after[item_length(after)..];
                }
                (Some("mod"), _) if after.len() > 1 => {
                    let child = [module.clone(), vec![word(&after[0]).unwrap()]].concat();
                    match &after[1] {
                        TokenTree::Group(body) => {
                            self.scan(&child, file, body.stream(), children);
                        }
                        _ => children.push(child),
                    }
                    rest = &after[2..];
                }
                (Some("use"), _) => {
                    let length = after.iter().position(|token| is_sign(token, ';'));
                    let (tree, after) = after.split_at(length.unwrap_or(after.len()));
                    self.record(module, imports(&[], tree));
                    rest = after;
                }
                (Some("crate" | "self" | "super"), _) => {
                    self.record(module, imports(&[], &rest_of_path(first, after)));
                }
                (_, TokenTree::Group(group)) => self.scan(module, file, group.stream(), children),
                _ => {}
            }
        }
    }

    /// Records those of the paths that begin in this crate.
    fn record(&mut self, module: &Names, paths: Vec<Names>) {
        let (_, named) = self.0.get_mut(module).unwrap();
        named.extend(paths.iter().filter_map(|path| absolute(module, path)));
    }

    /// Returns the module that a path leads to or into.
    fn module_of(&self, path: &[String]) -> Names {
        let lengths = (0..=path.len()).rev();
        let mut prefixes = lengths.map(|length| path[..length].to_vec());
        prefixes
            .find(|prefix| self.0.contains_key(prefix))
            .expect("the root is a module")
    }

    /// Returns the dependencies among the children of each module.
    fn siblings(&self) -> BTreeMap<Names, Siblings> {
        let mut all: BTreeMap<Names, Siblings> = BTreeMap::new();
        for (module, (file, paths)) in &self.0 {
            for path in paths {
                let target = self.module_of(path);
                let pairs = module.iter().zip(&target);
                let common = pairs.take_while(|(one, other)| one == other).count();
                if let (Some(one), Some(other)) = (module.get(common), target.get(common)) {
                    let siblings = all.entry(module[..common].to_vec()).or_default();
                    let reason = (file.clone(), path.join("::"));
                    let named = siblings.entry(one.clone()).or_default();
                    named.entry(other.clone()).or_insert(reason);
                }
            }
        }
        all
    }

    /// Describes the shortest cycle among the children of each module.
    fn cycles(&self) -> Vec<String> {
        let described = |(parent, siblings): (Names, Siblings)| {
            let ways = siblings.keys().filter_map(|one| way_back(&siblings, one));
            let cycle = ways.min_by_key(Vec::len)?;
            let parent = [vec!["crate".to_owned()], parent].concat().join("::");
            let mut text = format!("modules in {parent} depend on each other:");
            for (place, one) in cycle.iter().enumerate() {
                let next = &cycle[(place + 1) % cycle.len()];
                let (file, path) = &siblings[one][next];
                let file = file.display();
                write!(text, "\n  {one} -> {next}: {file} names crate::{path}").unwrap();
            }
            Some(text)
        };
        self.siblings().into_iter().filter_map(described).collect()
    }
}

fn word(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(word) => Some(word.to_string()),
        _ => None,
    }
}

fn is_sign(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == sign)
}

fn is_braces(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

/// Returns true if an attribute, without its `#`, compiles its item only for tests.
fn is_for_tests(attribute: &[TokenTree]) -> bool {
    let text = attribute.first().map(ToString::to_string);
    text.is_some_and(|text| text.replace(' ', "").starts_with("[cfg(test"))
}

/// Returns the number of tokens up to the end of an item: its braces or its semicolon.
fn item_length(tokens: &[TokenTree]) -> usize {
    let end = |token: &TokenTree| is_braces(token) || is_sign(token, ';');
    tokens
        .iter()
        .position(end)
        .map_or(tokens.len(), |end| end + 1)
}

/// Returns the tokens of a path: words with colons in between.
fn rest_of_path(first: &TokenTree, after: &[TokenTree]) -> Vec<TokenTree> {
    let mut path = vec![first.clone()];
    let mut rest = after;
    while let [one, two, next @ TokenTree::Ident(_), after @ ..] = rest
        && is_sign(one, ':')
        && is_sign(two, ':')
    {
        path.extend([one.clone(), two.clone(), next.clone()]);
        rest = after;
    }
    path
}

/// Returns the paths of a tree of imports: `a::{b, c::{d, e as f}}`.
fn imports(prefix: &[String], tree: &[TokenTree]) -> Vec<Names> {
    let mut all = Vec::new();
    for branch in tree.split(|token| is_sign(token, ',')) {
        let mut path = prefix.to_vec();
        let words = branch.iter().take_while(|token| {
            is_sign(token, ':') || word(token).is_some_and(|word| word != "as")
        });
        path.extend(words.filter_map(word));
        match branch.iter().find(|token| is_braces(token)) {
            Some(TokenTree::Group(group)) => {
                let branches: Vec<TokenTree> = group.stream().into_iter().collect();
                all.extend(imports(&path, &branches));
            }
            _ => all.push(path),
        }
    }
    all
}

/// Returns a path from the root of the crate; `None` if it begins in another crate.
fn absolute(module: &[String], path: &[String]) -> Option<Names> {
    let mut from = match path.first()?.as_str() {
        "crate" => Names::new(),
        "self" | "super" => module.to_vec(),
        _ => return None,
    };
    for name in path {
        match name.as_str() {
            "crate" | "self" => {}
            "super" => {
                from.pop();
            }
            name => from.push(name.to_owned()),
        }
    }
    Some(from)
}

/// Returns the shortest way from a module over its siblings back to itself.
fn way_back(siblings: &Siblings, start: &str) -> Option<Names> {
    let mut ways = VecDeque::from([vec![start.to_owned()]]);
    let mut seen = Vec::new();
    while let Some(way) = ways.pop_front() {
        for next in siblings
            .get(way.last()?)
            .into_iter()
            .flat_map(BTreeMap::keys)
        {
            if next == start {
                return Some(way);
            }
            if !seen.contains(next) {
                seen.push(next.clone());
                ways.push_back([way.clone(), vec![next.clone()]].concat());
            }
        }
    }
    None
}

/// Returns the modules of the crate with this root, `src/lib.rs` or `src/main.rs`.
fn modules_of(root: &Path) -> Modules {
    let sources = root.parent().unwrap();
    Modules::read(&|module| {
        let path: PathBuf = sources.join(module.iter().collect::<PathBuf>());
        let file = match module {
            [] => root.to_owned(),
            _ if path.join("mod.rs").exists() => path.join("mod.rs"),
            _ => path.with_extension("rs"),
        };
        let content = fs::read_to_string(&file);
        let content = content.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        (file, content)
    })
}

/// Returns the folders of the crates of the workspace.
fn members(manifest: &str) -> Vec<&str> {
    let (_, list) = manifest.split_once("\nmembers = [").unwrap();
    let (list, _) = list.split_once(']').unwrap();
    let names = list.split('"').skip(1).step_by(2);
    names.collect()
}

#[test]
fn no_module_of_the_workspace_depends_on_itself_through_its_siblings() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let repository = repository.canonicalize().unwrap();
    let manifest = fs::read_to_string(repository.join("Cargo.toml")).unwrap();
    let mut cycles = Vec::new();
    for member in members(&manifest) {
        let sources = repository.join(member).join("src");
        let roots = ["lib.rs", "main.rs"].map(|root| sources.join(root));
        let roots: Vec<_> = roots.iter().filter(|root| root.exists()).collect();
        assert!(!roots.is_empty(), "{member} has neither lib.rs nor main.rs");
        cycles.extend(roots.iter().flat_map(|root| modules_of(root).cycles()));
    }
    assert!(cycles.is_empty(), "{}", cycles.join("\n"));
}

fn cycles(sources: &[(&str, &str)]) -> Vec<String> {
    let modules = Modules::read(&|module| {
        let name = module.join("::");
        let found = sources.iter().find(|(path, _)| *path == name);
        let (path, content) = found.unwrap_or_else(|| panic!("there is no {name}"));
        (PathBuf::from(format!("{path}.rs")), (*content).to_owned())
    });
    modules.cycles()
}

#[test]
fn a_cycle_is_named_with_its_modules_and_files() {
    let sources = [
        ("", "pub mod a; mod b; mod c;"),
        ("a", "use std::fmt; use crate::{b::{self, X}, d as e};"),
        ("b", "fn f() { vec![super::c::y()] }"),
        ("c", "mod inner;"),
        ("c::inner", "pub(super) use super::super::a::Z;"),
    ];
    assert_eq!(
        cycles(&sources),
        ["modules in crate depend on each other:\n  \
          a -> b: a.rs names crate::b\n  \
          b -> c: b.rs names crate::c::y\n  \
          c -> a: c::inner.rs names crate::a::Z"]
    );
}

#[test]
fn a_cycle_below_the_top_level_is_found_too() {
    let sources = [
        ("", "mod a;"),
        ("a", "mod b; mod c; use self::b::X;"),
        ("a::b", "use super::c::Y;"),
        ("a::c", "mod inline { use super::super::b::X; }"),
    ];
    assert_eq!(
        cycles(&sources),
        ["modules in crate::a depend on each other:\n  \
          b -> c: a::b.rs names crate::a::c::Y\n  \
          c -> b: a::c.rs names crate::a::b::X"]
    );
}

#[test]
fn parents_tests_comments_and_other_crates_make_no_cycle() {
    let sources = [
        ("", "mod a; mod b; #[cfg(test)] mod testing;"),
        ("a", "mod child; use crate::b::X; // crate::a::y\nuse a::b;"),
        ("a::child", "use super::Y; const TEXT: &str = \"crate::b\";"),
        (
            "b",
            "#[cfg(test)] mod tests { use crate::a::Y; } #[cfg(test)] fn f() { crate::a::g() } /// See [`crate::a`].\nstruct S;",
        ),
    ];
    assert_eq!(cycles(&sources), [""; 0]);
}

#[test]
fn the_members_of_the_workspace_are_those_of_its_manifest() {
    let manifest =
        "[workspace]\nresolver = \"3\"\nmembers = [\"a\", \"b/c\"]\ndefault-members = [\"a\"]\n";
    assert_eq!(members(manifest), ["a", "b/c"]);
}
