/** Dialog, sheet (at the right edge, full screen on phones) and popover. */
import { X } from 'lucide-react';
import { Dialog as Radix, Popover as RadixPopover } from 'radix-ui';
import type { ReactNode } from 'react';
import { cn } from '@/lib/cn';
import { IconButton } from './button';

interface Props {
  open: boolean;
  onClose: () => void;
  title: string;
  description?: string;
  children: ReactNode;
  wide?: boolean;
}

export function Dialog({ wide = false, ...props }: Props): ReactNode {
  return (
    <Shell
      {...props}
      place={cn(
        'left-[calc(50%+var(--beside)/2)] max-h-[88dvh]',
        'w-[calc(100vw-2rem-var(--beside))] -translate-x-1/2 rounded-2xl',
        // Wide dialogs grow as data arrives. Their top edge stays in place, so that nothing moves under the pointer.
        wide ? 'top-[6dvh] max-w-4xl' : 'top-1/2 max-w-lg -translate-y-1/2',
      )}
    />
  );
}

export function Sheet(props: Props): ReactNode {
  return (
    <Shell {...props} place={cn('inset-y-0 right-0 w-full border-l', props.wide ? 'sm:w-[44rem]' : 'sm:w-[27rem]')} />
  );
}

function Shell({ open, onClose, title, description, children, place }: Props & { place: string }): ReactNode {
  return (
    <Radix.Root open={open} onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="fixed inset-0 z-40 bg-black/30" />
        <Radix.Content
          className={cn('fixed z-40 flex flex-col bg-surface shadow-float', place)}
          {...(description ? {} : { 'aria-describedby': undefined })}
        >
          <header className="py-4 pr-14 pb-2 pl-5">
            <Radix.Title className="text-base font-semibold wrap-anywhere">{title}</Radix.Title>
            {description && <Radix.Description className="text-muted wrap-anywhere">{description}</Radix.Description>}
          </header>
          <div className="min-h-0 grow overflow-y-auto px-5 pb-5">{children}</div>
          {/* Last, so that what the dialog is about gets the focus first. */}
          <IconButton label="Close" onClick={onClose} className="absolute top-3 right-4">
            <X />
          </IconButton>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

interface PopoverProps {
  trigger: ReactNode;
  children: ReactNode;
  width?: string;
  label: string;
  align?: 'start' | 'center';
}

export function Popover({ trigger, children, width = 'w-80', label, align = 'center' }: PopoverProps): ReactNode {
  return (
    <RadixPopover.Root>
      <RadixPopover.Trigger asChild>{trigger}</RadixPopover.Trigger>
      <RadixPopover.Portal>
        <RadixPopover.Content
          aria-label={label}
          align={align}
          sideOffset={6}
          collisionPadding={8}
          className={cn(
            'z-50 max-h-(--radix-popover-content-available-height) max-w-[calc(100vw-1rem)]',
            'overflow-y-auto rounded-xl border bg-raised p-4 shadow-float',
            width,
          )}
        >
          {children}
        </RadixPopover.Content>
      </RadixPopover.Portal>
    </RadixPopover.Root>
  );
}
