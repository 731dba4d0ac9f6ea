// SPDX-License-Identifier: GPL-2.0
/* Stands in for an out-of-tree peer memory client: it can be built, loaded and unloaded, and does nothing. */
#include <linux/init.h>
#include <linux/module.h>

static int __init toy_peer_mem_init(void)
{
	pr_info("toy_peer_mem: loaded\n");
	return 0;
}

static void __exit toy_peer_mem_exit(void)
{
	pr_info("toy_peer_mem: unloaded\n");
}

module_init(toy_peer_mem_init);
module_exit(toy_peer_mem_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Stand-in for a peer memory client");
MODULE_VERSION("1.3");
