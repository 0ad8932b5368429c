//! The attributes of a node, by their kind. An absent one has the op's default.

use super::evaluate::Evaluator;
use crate::format::graphdef::attr_value::Value as Attr;

impl Evaluator<'_> {
    pub(super) fn int(&self, node: usize, name: &str, default: i64) -> Result<i64, String> {
        match self.graph.attr(node, name) {
            None => Ok(default),
            Some(&Attr::Int(int)) => Ok(int),
            Some(_) => Err(format!("its attribute {name} must be an integer")),
        }
    }

    pub(super) fn float(&self, node: usize, name: &str, default: f32) -> Result<f32, String> {
        match self.graph.attr(node, name) {
            None => Ok(default),
            Some(&Attr::Float(float)) => Ok(float),
            Some(_) => Err(format!("its attribute {name} must be a number")),
        }
    }

    pub(super) fn flag(&self, node: usize, name: &str, default: bool) -> Result<bool, String> {
        match self.graph.attr(node, name) {
            None => Ok(default),
            Some(&Attr::Bool(flag)) => Ok(flag),
            Some(_) => Err(format!("its attribute {name} must be a flag")),
        }
    }

    pub(super) fn must_not(&self, node: usize, names: &[&str]) -> Result<(), String> {
        for name in names {
            if self.flag(node, name, false)? {
                return Err(format!("{name} must be false"));
            }
        }
        Ok(())
    }

    pub(super) fn sizes(&self, node: usize, name: &str) -> Result<Option<[usize; 2]>, String> {
        match self.graph.attr(node, name) {
            None => Ok(None),
            Some(Attr::List(list)) => match *list.i {
                [1, height, width, 1] if height > 0 && width > 0 && height <= 65_535 && width <= 65_535 => {
                    Ok(Some([height as usize, width as usize]))
                }
                _ => Err(format!("its {name} are {:.80?}, but must be [1, height, width, 1]", list.i)),
            },
            Some(_) => Err(format!("its {name} must be a list of integers")),
        }
    }

    pub(super) fn text(&self, node: usize, name: &str, default: &'static str) -> &str {
        match self.graph.attr(node, name) {
            Some(Attr::Bytes(text)) => std::str::from_utf8(text).unwrap_or("?"),
            _ => default,
        }
    }

    pub(super) fn channels_last(&self, node: usize) -> Result<(), String> {
        match self.text(node, "data_format", "NHWC") {
            "NHWC" => Ok(()),
            _ => Err("its data_format must be NHWC".into()),
        }
    }
}
