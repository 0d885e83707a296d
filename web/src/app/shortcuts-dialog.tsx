/** All keys, on one card. */
import type { ReactNode } from 'react';
import { usePreferences } from '@/settings/preferences';
import { Dialog } from '@/ui/dialog';
import { ShortcutsTable } from './shortcuts-table';

export default function ShortcutsDialog({ onClose }: { onClose: () => void }): ReactNode {
  const { send } = usePreferences();
  return (
    <Dialog open onClose={onClose} title="Keyboard shortcuts">
      <ShortcutsTable send={send} />
    </Dialog>
  );
}
