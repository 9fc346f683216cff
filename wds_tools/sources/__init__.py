"""Where bytes come from: one small interface (`base.Source`), one module for each kind of address."""
