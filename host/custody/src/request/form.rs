//! Form bodies (`application/x-www-form-urlencoded`): fixed pairs, arguments, slots, in one exact buffer.

use super::path::percent;
use crate::secret::{SecretBytes, write_exactly};
use std::collections::BTreeSet;

/// One value of a form.
pub(crate) enum FormValue<'a> {
    Text(String),
    Secret(&'a SecretBytes),
}

/// Pairs in order; a key occurs once (attack 44).
pub(crate) struct Form<'a> {
    pairs: Vec<(String, FormValue<'a>)>,
    keys: BTreeSet<String>,
}

impl<'a> Form<'a> {
    pub fn new(skeleton: &[(String, String)]) -> Result<Form<'a>, String> {
        let mut form = Form { pairs: Vec::new(), keys: BTreeSet::new() };
        for (key, value) in skeleton {
            form.set(key, FormValue::Text(value.clone()))?;
        }
        Ok(form)
    }

    pub fn set(&mut self, key: &str, value: FormValue<'a>) -> Result<(), String> {
        if !self.keys.insert(key.to_owned()) {
            return Err(format!("form key `{key}` is filled already (attack 43)"));
        }
        self.pairs.push((key.to_owned(), value));
        Ok(())
    }

    /// A list: `*` stands for 1, 2, …, after the fixed elements.
    pub fn set_list(&mut self, key: &str, values: &[String]) -> Result<(), String> {
        let (before, after) = key.split_once('*').ok_or("the place takes one value")?;
        let mut number = 1;
        while self.keys.iter().any(|key| key.starts_with(&format!("{before}{number}{after}"))) {
            number += 1;
        }
        for value in values {
            self.set(&format!("{before}{number}{after}"), FormValue::Text(value.clone()))?;
            number += 1;
        }
        Ok(())
    }

    pub fn write(&self) -> Option<SecretBytes> {
        write_exactly(|out| {
            for (index, (key, value)) in self.pairs.iter().enumerate() {
                if index > 0 {
                    out.put(b"&");
                }
                percent(out, key.as_bytes());
                out.put(b"=");
                match value {
                    FormValue::Text(text) => percent(out, text.as_bytes()),
                    FormValue::Secret(secret) => percent(out, secret.expose()),
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(form: &Form<'_>) -> Vec<(String, String)> {
        url::form_urlencoded::parse(form.write().unwrap().expose()).into_owned().collect()
    }

    #[test]
    fn a_key_is_filled_once_and_lists_count_on_attack_44() {
        let skeleton =
            [("Action".to_string(), "Run".to_string()), ("Group.1".to_string(), "fixed".to_string())];
        let mut form = Form::new(&skeleton).unwrap();
        assert!(form.set("Action", FormValue::Text("Terminate".into())).is_err());
        form.set_list("Group.*", &["a".into(), "b&c=d".into()]).unwrap();
        let expected = [("Action", "Run"), ("Group.1", "fixed"), ("Group.2", "a"), ("Group.3", "b&c=d")];
        assert_eq!(pairs(&form), expected.map(|(k, v)| (k.to_string(), v.to_string())));
    }

    proptest! {
        #[test]
        fn any_secret_round_trips_through_a_form(secret in "(\\PC|[\\x00-\\x1f&=+%]){0,60}") {
            let spliced = SecretBytes::from(secret.clone().into_bytes());
            let mut form = Form::new(&[("a".into(), "b".into())]).unwrap();
            form.set("UserData", FormValue::Secret(&spliced)).unwrap();
            prop_assert_eq!(pairs(&form)[1].clone(), ("UserData".to_string(), secret));
        }
    }
}
