# SPDX-License-Identifier: MIT
# What Doxygen reads of a page: the page, and below the text picture of each schedule the one that the build draws,
# which leads to its interactive page. In the place of "<!-- gallery -->" stands a link to all of them. Headings lose the
# marks of code, which Doxygen would show as they are.
/^<!-- gallery -->$/ {
  print "\\htmlonly <p><a href=\"gallery/index.html\">All schedules in pictures</a>, made by the program for this page.</p> \\endhtmlonly"
  next
}
/^#+ / { gsub(/`/, "") }
/^<a name="schedule-/ {
  split($0, part, /schedule-|"/)
  name = part[3]
}
{ print }
/^```$/ && name != "" {
  printf "\n\\htmlonly <p><a href=\"gallery/%s.html\"><img src=\"gallery/%s.svg\" alt=\"timeline of %s\" style=\"max-width: 100%%\"></a></p> \\endhtmlonly\n\n", name, name, name
  name = ""
}
