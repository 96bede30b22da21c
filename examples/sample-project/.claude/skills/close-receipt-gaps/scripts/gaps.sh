#!/bin/sh
# Prints a resend command for every gap between the counters of a dock's receipts.
#
# sh scripts/gaps.sh receipts.csv   (columns: dock_id,counter,...; with a heading)
set -eu
sort -t, -k1,1 -k2,2n "$1" | awk -F, '
  $1 == "dock_id" { next }
  $1 == dock && $2 > last + 1 {
    missing = $2 - last - 1
    printf "tw dock resend %s --from %d   # %d missing\n", dock, last + 1, missing
    gaps++
  }
  { dock = $1; last = $2 }
  END { if (!gaps) print "no gaps" }
'
