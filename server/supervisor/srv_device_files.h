/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device files of NVIDIA's driver.
 *
 * On a host where nothing has used a card since it booted the kernel modules may not be
 * loaded, nvidia-uvm above all, and /dev lacks their files.  The driver's library then
 * runs nvidia-modprobe, which comes with it; a worker may run no program, so that
 * cuInit would fail there.  So the supervisor runs it, before the first worker starts.
 */
#ifndef SRV_DEVICE_FILES_H
#define SRV_DEVICE_FILES_H

/* Make what is absent, for a @driver that is no software card; waits for it, at most
 * half a minute, so this is for the start.  What could not be made is left to the
 * driver, whose error the probe reports. */
void srv_device_files_make(const char *driver);

#endif
