/** Dropdown menu. */
import { Trash2 } from 'lucide-react';
import { DropdownMenu } from 'radix-ui';
import type { ReactNode } from 'react';
import { cn } from '@/lib/cn';

export function Menu({
  trigger,
  children,
  align = 'end',
}: {
  trigger: ReactNode;
  children: ReactNode;
  align?: 'start' | 'end';
}): ReactNode {
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content
          align={align}
          sideOffset={4}
          collisionPadding={8}
          className={cn(
            'z-50 max-h-(--radix-dropdown-menu-content-available-height) min-w-44',
            'overflow-y-auto rounded-xl border bg-raised p-1 shadow-float',
          )}
        >
          {children}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

interface ItemProps {
  onSelect: () => void;
  children: ReactNode;
  icon?: ReactNode;
  keys?: string;
  danger?: boolean;
  disabled?: boolean;
}

export function MenuItem({ onSelect, children, icon, keys, danger = false, disabled = false }: ItemProps): ReactNode {
  return (
    <DropdownMenu.Item
      onSelect={onSelect}
      disabled={disabled}
      className={cn(
        'flex cursor-pointer items-center gap-2 rounded-lg px-2 py-1.5 outline-none select-none',
        'data-highlighted:bg-sunken data-disabled:cursor-default data-disabled:opacity-45',
        '[&_svg]:size-4 [&_svg]:shrink-0 [&_svg]:text-muted',
        danger && 'text-bad [&_svg]:text-bad',
      )}
    >
      {icon}
      <span className="grow">{children}</span>
      {keys && <kbd className="font-sans text-xs text-faint">{keys}</kbd>}
    </DropdownMenu.Item>
  );
}

export const MenuLine = (): ReactNode => <DropdownMenu.Separator className="my-1 h-px bg-line" />;

export const MenuTitle = ({ children }: { children: ReactNode }): ReactNode => (
  <DropdownMenu.Label className="px-2 pt-1.5 pb-1 text-xs text-faint">{children}</DropdownMenu.Label>
);

/** The last item of a menu, below a line. */
export const DeleteMenuItem = ({ onSelect }: { onSelect: () => void }): ReactNode => (
  <>
    <MenuLine />
    <MenuItem icon={<Trash2 />} danger onSelect={onSelect}>
      Delete
    </MenuItem>
  </>
);
