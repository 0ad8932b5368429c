//! TensorFlow 1: cells from their tensors, and frozen graphs.

pub mod cells;
pub(crate) mod golden;
//mod graph;

pub fn import_graph(
    _: &[super::graphdef::NodeDef],
    _: &str,
) -> Result<crate::canonical::Canonical, crate::error::ImportError> {
    todo!()
}
