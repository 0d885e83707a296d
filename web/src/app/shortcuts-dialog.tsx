/** All keys, on one card. */
import type { ReactNode } from 'react';
import { focused } from '@/lib/dom';
import { usePreferences } from '@/lib/preferences';
import { Dialog } from '@/components/dialog';
import { ShortcutsTable } from './shortcuts-table';

export default function ShortcutsDialog({ onClose }: { onClose: () => void }): ReactNode {
  const { send } = usePreferences();
  return (
    <Dialog open onClose={onClose} title="Keyboard shortcuts">
      <div ref={focused} tabIndex={-1} className="outline-none">
        <ShortcutsTable send={send} />
      </div>
    </Dialog>
  );
}
