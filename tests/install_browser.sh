#!/bin/sh
# The page is tested in a browser. As root on Debian or Ubuntu (as in CI) it is installed here;
# elsewhere install Chromium or Chrome yourself, or those tests are skipped.
set -eu
for name in chromium chromium-browser google-chrome; do
    if command -v "$name" > /dev/null; then exit 0; fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium
else
    echo "no Chromium or Chrome here: the tests of the page will be skipped" >&2
fi
