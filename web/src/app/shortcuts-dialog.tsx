/** Dialog with all keyboard shortcuts. */
import type { ReactNode } from 'react';
import { Dialog } from '@/components/dialog';
import { Kbd } from '@/components/status';
import { focusRef } from '@/lib/dom';
import { usePreferences, type Preferences } from '@/lib/preferences';
import { useCommands, formatKeys, groupShortcuts, type Shortcut } from './commands';

export default function ShortcutsDialog({ onClose }: { onClose: () => void }): ReactNode {
  const { send } = usePreferences();
  return (
    <Dialog open onClose={onClose} title="Keyboard shortcuts">
      <div ref={focusRef} tabIndex={-1} className="outline-none">
        <ShortcutsTable send={send} />
      </div>
    </Dialog>
  );
}

const COMPOSER_SHORTCUTS: Record<Preferences['send'], Shortcut[]> = {
  enter: [
    { group: 'Writing', title: 'Send', keys: 'enter' },
    { group: 'Writing', title: 'New line', keys: 'shift+enter' },
  ],
  'ctrl-enter': [
    { group: 'Writing', title: 'Send', keys: 'mod+enter' },
    { group: 'Writing', title: 'New line', keys: 'enter' },
  ],
};

export function ShortcutsTable({ send }: { send: Preferences['send'] }): ReactNode {
  const groups = [...groupShortcuts(useCommands()), ['Writing', COMPOSER_SHORTCUTS[send]] as const];
  return (
    <div className="flex flex-col gap-5">
      {groups.map(([group, shortcuts]) => (
        <section key={group}>
          <h3 className="pb-1 text-xs font-medium text-faint">{group}</h3>
          <dl className="divide-y divide-line">
            {shortcuts.map(({ title, keys }) => (
              <div key={title + keys} className="flex items-center justify-between gap-4 py-1.5">
                <dt className="min-w-0">{title}</dt>
                <dd className="flex shrink-0 gap-1">
                  {formatKeys(keys).map((key) => (
                    <Kbd key={key}>{key}</Kbd>
                  ))}
                </dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
    </div>
  );
}
