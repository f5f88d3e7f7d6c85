#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `make deb`: packages what was built in BUILD.   build.sh BUILD VERSION
#
# The packages are for the release of Debian that they are built on, because they depend
# on its libraries; the client's tarball and wheel are for all others.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
out=$(cd "$1" && pwd)
version=$2
work=$out/deb/tree/gpupool-$version

rm -rf "$out/deb"
mkdir -p "$work/deploy"
cp -r "$top/deploy/debian" "$work/debian"
cp -r "$top/deploy/examples" "$work/deploy/"
# The documents lead to each other as in the project; what they say of its sources leads
# nowhere.  The server's and the scheduler's README.md lead there as well.
mkdir -p "$work/doc/docs" "$work/doc/deploy"
cp -r "$top"/docs/*.md "$top/docs/openapi.json" "$top/docs/page.png" "$top/docs/results" \
    "$work/doc/docs/"
cp "$top/deploy/README.md" "$work/doc/deploy/"
sed -i 's,\[\([^]]*\)\](\.\./\(bench\|tests\)/[^)]*),\1,g' "$work"/doc/docs/*.md
sed 's|](\.\./docs/|](../gpupool-common/docs/|g' "$top/deploy/README.md" >"$work/deploy/README.md"
cp "$top/CHANGELOG.md" "$work/releases.md"
# What the units read decides when they start, and what the installation asks for.
for name in server scheduler; do
    settings=$(sed -n 's/^EnvironmentFile=-\{0,1\}//p' "$top/deploy/systemd/gpupool-$name.service" |
        head -n 1)
    sed -i "s|@SETTINGS@|$settings|" "$work/debian/gpupool-$name.postinst" \
        "$work/debian/gpupool-$name.configured.conf"
    sed -i "/^# unit.in, by build.sh/r $work/debian/unit.in" "$work/debian/gpupool-$name.postinst"
    for script in preinst prerm; do
        cp "$work/debian/$script.in" "$work/debian/gpupool-$name.$script"
    done
    sed -i "s|@PACKAGE@|gpupool-$name|g" "$work/debian/gpupool-$name".p*inst "$work/debian/gpupool-$name.prerm"
done
for group in "$top"/deploy/systemd/*.sysusers.conf; do
    [ ! -e "$group" ] || cp "$group" "$work/debian/gpupool-scheduler.sysusers"
done
date=$(LC_ALL=C date -u -R -d "@${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct 2>/dev/null || date +%s)}")
cat >"$work/debian/changelog" <<END
gpupool ($version) unstable; urgency=medium

  * See /usr/share/doc/gpupool-common/releases.md.gz.

 -- gpupool maintainers <maintainers@gpupool.invalid>  $date
END
cd "$work"
if ! TOP=$top OUT=$out DEB_BUILD_OPTIONS="noautodbgsym nocheck ${DEB_BUILD_OPTIONS:-}" \
    MAKEFLAGS='' MAKELEVEL='' dpkg-buildpackage --no-check-builddeps -b -us -uc \
    >"$out/deb/build.log" 2>&1; then
    tail -n 15 "$out/deb/build.log" >&2
    echo "error: the packages were not built; see $out/deb/build.log" >&2
    exit 1
fi
cd "$out/deb"
mv tree/*.deb .
rm -rf tree
ls "$PWD"/*.deb
