//! What the environment says: settings of its own, and `${NAME}` in the file.
//!
//! Never: a variable's value in an error.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::problem::{ConfigError, Place, Problem};
use super::reference::{self, Kind, PREFIX};
use super::written::Written;

/// The process's environment. Variables that are not UTF-8 only matter if they are ours.
pub(super) fn variables() -> Result<Vec<(String, String)>, ConfigError> {
    text_only(std::env::vars_os())
}

/// Whether any setting is given by the environment.
pub(super) fn says_anything(variables: &[(String, String)]) -> bool {
    variables.iter().any(|(name, _)| name.starts_with(PREFIX))
}

fn text_only(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Vec<(String, String)>, ConfigError> {
    let mut texts = Vec::new();
    for (name, value) in variables {
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => texts.push((name, value)),
            (Ok(variable), Err(_)) if variable.starts_with(PREFIX) => {
                let what = "is not UTF-8; a text is wanted";
                let place = Place::Environment { variable };
                return Err(Problem::without_key(place, what).into());
            }
            _ => {}
        }
    }
    Ok(texts)
}

/// Puts the settings of the environment over those of the file.
pub(super) fn overlay(written: &mut Written) {
    let ours: Vec<(String, String)> = written
        .environment()
        .iter()
        .filter(|(name, _)| name.starts_with(PREFIX))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    for (variable, text) in ours {
        put(written, variable, text);
    }
}

fn put(written: &mut Written, variable: String, text: String) {
    let Some((key, member)) = reference::find_variable(&variable) else {
        let nearest = reference::nearest_variable(&variable);
        let what = format!("is not the name of a setting; the nearest is {nearest}");
        written.add(Problem::without_key(Place::Environment { variable }, what));
        return;
    };
    let place = Place::Environment { variable };
    if key.kind.is_of_the_file_alone() || key.path.starts_with("sink.topics.") {
        let what = "cannot be said by a variable; write it into the file";
        written.refuse(&place, key.path, what);
        return;
    }
    let written = if key.path.starts_with("route.") {
        match written.only_table("route", &place) {
            Some(route) => route,
            None => return,
        }
    } else {
        written
    };
    match (key.not_built(), member) {
        (Some(what), _) => written.refuse(&place, key.path, what),
        (None, Some(member)) => written.put(&format!("{}.{member}", key.path), place, text),
        (None, None) if key.kind == Kind::List => {
            let items = text.split(',').map(str::trim);
            let items = items.filter(|item| !item.is_empty());
            let items = items.map(|item| (place.clone(), item.to_owned())).collect();
            written.put_list(key.path, place, items);
        }
        (None, None) => written.put(key.path, place, text),
    }
}

/// Replaces each `${NAME}` by the variable's value; `$${` stands for `${` itself.
pub(super) fn expand(text: &str, environment: &BTreeMap<String, String>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = after;
            continue;
        }
        let name = after.split_once('}').filter(|(name, _)| is_name(name));
        let Some((name, after)) = name else {
            return Err(
                "has a ${ that begins no ${NAME}; write $${ where ${ itself is meant".to_owned(),
            );
        };
        let Some(value) = environment.get(name) else {
            return Err(format!(
                "needs the environment variable {name}, which is not set; set it, or write $${{{name}}} \
                 if ${{{name}}} itself is meant"
            ));
        };
        expanded.push_str(before);
        expanded.push_str(value);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn a_name_in_braces_is_replaced() {
        let environment = [("A", "1"), ("B_2", "two"), ("LOOP", "${A}"), ("EMPTY", "")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        for (text, wanted) in [
            ("", Ok("")),
            ("plain $ $A {A} }", Ok("plain $ $A {A} }")),
            ("${A}", Ok("1")),
            ("<${A}${B_2}>", Ok("<1two>")),
            ("${EMPTY}", Ok("")),
            ("${LOOP}", Ok("${A}")),
            ("$${A}", Ok("${A}")),
            ("$${", Ok("${")),
            ("$$${A}", Ok("$${A}")),
            ("$${A} ${A}", Ok("${A} 1")),
            ("${MISSING}", Err("variable MISSING, which is not set")),
            ("${A", Err("begins no ${NAME}")),
            ("${}", Err("begins no ${NAME}")),
            ("${1A}", Err("begins no ${NAME}")),
            ("${A-x}", Err("begins no ${NAME}")),
        ] {
            match (expand(text, &environment), wanted) {
                (Ok(found), Ok(wanted)) => assert_eq!(found, wanted, "{text}"),
                (Err(found), Err(wanted)) => assert!(found.contains(wanted), "{text}: {found}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }

    #[test]
    fn only_our_own_variables_must_be_text() {
        let variable = |name: &str| (OsString::from(name), OsString::from_vec(vec![0xff]));
        let none = text_only([variable("OTHER")].into_iter()).unwrap();
        assert_eq!(none, []);
        let error = text_only([variable("HEADWATER__NAME")].into_iter()).unwrap_err();
        let wanted = "HEADWATER__NAME: is not UTF-8; a text is wanted";
        assert_eq!(error.to_string(), wanted);
    }
}
