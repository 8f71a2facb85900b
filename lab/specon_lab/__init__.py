"""The lab: policies studied in virtual time, with the product's own `step`, curve and classifier."""
